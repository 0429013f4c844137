package capabilities

import (
	"go/ast"
	"go/types"
	"iter"
	"maps"
	"slices"
	"strings"
)

// uses are the places where the bridge uses something of the SDK, by the
// thing's name: a function's full name, "package.Type" or
// "package.Type.Field".
type uses struct {
	files   map[string]map[string]bool
	dropped map[string]bool // types with an empty case
	kept    map[string]bool // types that are used otherwise
}

func ofSDK(o types.Object) bool {
	return o != nil && o.Pkg() != nil && (o.Pkg().Path() == sdkModule || o.Pkg().Path() == rpcPackage)
}

// named is the SDK's type behind pointers and aliases, or "".
func named(t types.Type) string {
	if t == nil {
		return ""
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || !ofSDK(n.Obj()) {
		return ""
	}
	return n.Obj().Pkg().Path() + "." + n.Obj().Name()
}

func (u *uses) add(what, file string) {
	if u.files[what] == nil {
		u.files[what] = map[string]bool{}
	}
	u.files[what][file] = true
}

func (u *uses) of(what string) []string { return slices.Sorted(maps.Keys(u.files[what])) }

// find looks through the bridge's code.
func (c *code) find() *uses {
	u := &uses{files: map[string]map[string]bool{}, dropped: map[string]bool{}, kept: map[string]bool{}}
	for _, p := range c.users {
		for name, f := range p.files {
			if !ast.IsGenerated(f) { // the table of all calls uses none
				u.file(p, name, f)
			}
		}
	}
	// agent/sdk copies a session's configuration, field by field of the same
	// name, when it resumes one.
	for what, files := range u.files {
		if field, ok := strings.CutPrefix(what, sdkModule+".SessionConfig."); ok {
			for file := range files {
				u.add(sdkModule+".ResumeSessionConfig."+field, file)
			}
		}
	}
	return u
}

func (u *uses) file(p *checked, name string, f *ast.File) {
	empty := map[ast.Node]bool{} // identifiers in cases without a body
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CaseClause:
			for _, e := range n.List {
				ast.Inspect(e, func(x ast.Node) bool {
					empty[x] = leavesAtOnce(n.Body)
					return true
				})
			}
		case *ast.Ident:
			switch o := p.info.Uses[n].(type) {
			case *types.Func:
				if ofSDK(o) {
					u.add(o.FullName(), name)
				}
			case *types.TypeName:
				t := named(o.Type())
				u.add(t, name)
				if empty[n] {
					u.dropped[t] = true
				} else {
					u.kept[t] = true
				}
			}
		case *ast.SelectorExpr:
			if s := p.info.Selections[n]; s != nil && s.Kind() == types.FieldVal {
				if t := named(s.Recv()); t != "" {
					u.add(t+"."+n.Sel.Name, name)
				}
			}
		case *ast.CompositeLit:
			t := named(p.info.Types[n].Type)
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && t != "" {
					if id, ok := kv.Key.(*ast.Ident); ok {
						u.add(t+"."+id.Name, name)
					}
				}
			}
		}
		return true
	})
}

// leavesAtOnce says whether a case does nothing.
func leavesAtOnce(body []ast.Stmt) bool {
	if len(body) != 1 {
		return len(body) == 0
	}
	r, ok := body[0].(*ast.ReturnStmt)
	return ok && len(r.Results) == 0
}

// graph is which functions of the SDK call which, and which calls of the
// protocol each makes itself.
type graph struct {
	callees map[string]map[string]bool
	calls   map[string][]string // function → methods
}

func (c *code) graph() *graph {
	g := &graph{callees: map[string]map[string]bool{}, calls: map[string][]string{}}
	for _, p := range c.sdk {
		for obj, fn := range p.functions() {
			g.add(p, obj.FullName(), fn)
		}
	}
	return g
}

// functions are those of a package that have a body, methods included.
func (p *checked) functions() iter.Seq2[*types.Func, *ast.FuncDecl] {
	return func(yield func(*types.Func, *ast.FuncDecl) bool) {
		for _, f := range p.files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					if obj, ok := p.info.Defs[fn.Name].(*types.Func); ok && !yield(obj, fn) {
						return
					}
				}
			}
		}
	}
}

func (g *graph) add(p *checked, name string, fn *ast.FuncDecl) {
	g.callees[name] = map[string]bool{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if o, ok := p.info.Uses[n].(*types.Func); ok && ofSDK(o) {
				g.callees[name][o.FullName()] = true
			}
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) < 2 || !strings.HasPrefix(sel.Sel.Name, "Request") && sel.Sel.Name != "Notify" {
				return true
			}
			if v := p.info.Types[n.Args[1]].Value; v != nil {
				g.calls[name] = append(g.calls[name], strings.Trim(v.ExactString(), `"`))
			}
		}
		return true
	})
}

// reach are the protocol's methods that a function may call, itself or
// through others of the SDK.
func (g *graph) reach(from string) map[string]bool {
	out, seen, todo := map[string]bool{}, map[string]bool{from: true}, []string{from}
	for len(todo) > 0 {
		f := todo[0]
		todo = todo[1:]
		for _, m := range g.calls[f] {
			out[m] = true
		}
		for next := range g.callees[f] {
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return out
}
