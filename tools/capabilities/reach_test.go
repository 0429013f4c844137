package capabilities

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// What the SDK's agent takes from a session's description, its provider or its
// prompts counts as used in the inventory. So somebody outside of the agents must
// fill it in: a setting, an API, or the Go API, whose callers make prompts
// themselves.
func TestWhatIsUsedCanBeReached(t *testing.T) {
	types := map[string]map[string]bool{"SessionSpec": {}, "Provider": {}}
	files := token.NewFileSet()
	domain, err := parser.ParseFile(files, filepath.Join(root, "bridge", "session.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(domain, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || types[spec.Name.Name] == nil {
			return true
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			t.Fatalf("%s is no struct", spec.Name.Name)
		}
		for _, f := range fields.Fields.List {
			for _, name := range f.Names {
				types[spec.Name.Name][name.Name] = false
			}
		}
		return true
	})
	set := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if of, ok := n.Type.(*ast.SelectorExpr); ok && types[of.Sel.Name] != nil {
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						if key, ok := kv.Key.(*ast.Ident); ok {
							types[of.Sel.Name][key.Name] = true
						}
					}
				}
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if to, ok := left.(*ast.SelectorExpr); ok && isSpec(to.X) {
					types["SessionSpec"][to.Sel.Name] = true
				}
			}
		}
		return true
	}
	for _, dir := range []string{".", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(root, path) // both are below root
			rel = filepath.ToSlash(rel)
			switch {
			case err != nil:
				return err
			case d.IsDir() && (dir == "." && rel != "." || rel == "internal/agent" || rel == "internal/testing"):
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			f, err := parser.ParseFile(files, path, nil, 0)
			if err == nil {
				ast.Inspect(f, set)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, fields := range types {
		if len(fields) < 10 {
			t.Errorf("bridge.%s has %d fields: the test does not find it", name, len(fields))
		}
		for field, reached := range fields {
			if !reached && field != "Confinement" { // the session's gate gives it
				t.Errorf("nobody can set bridge.%s.%s: give it a setting or an API, or remove it", name, field)
			}
		}
	}
}

// isSpec reports an expression such as spec or r.Spec.
func isSpec(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "spec"
	case *ast.SelectorExpr:
		return x.Sel.Name == "Spec"
	}
	return false
}
