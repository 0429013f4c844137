package capabilities

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
)

// contract lists the structs that the document has sections for. One that is
// gone stops the generator, so that an upgrade is looked at.
var contract = []string{
	"ClientOptions", "StdioConnection", "TCPConnection", "URIConnection", "InProcessConnection", "TelemetryConfig", "ClientInfo",
	"SessionConfig", "ResumeSessionConfig", "ProviderConfig", "AzureProviderOptions", "InfiniteSessionConfig", "SystemMessageConfig",
	"MCPStdioServerConfig", "MCPHTTPServerConfig", "MessageOptions", "rpc.SendRequest", "SetModelOptions", "SessionListFilter",
	"Tool", "ToolInvocation", "ToolResult", "ToolBinaryResult",
	"SessionHooks", "PreToolUseHookInput", "PreToolUseHookOutput", "PostToolUseHookInput", "PostToolUseHookOutput",
	"PostToolUseFailureHookInput", "UserPromptSubmittedHookOutput", "ErrorOccurredHookInput", "ErrorOccurredHookOutput",
	"UserInputRequest", "UserInputResponse", "ElicitationContext", "ElicitationResult",
	"ModelInfo", "ModelCapabilities", "ModelSupports", "ModelLimits", "GetStatusResponse", "GetAuthStatusResponse", "SessionMetadata",
	"rpc.SessionErrorData", "rpc.ModelCallFailureData", "rpc.ToolExecutionCompleteError",
}

func (c *code) describe(t *testing.T) *capabilities.SDK {
	t.Helper()
	u, g := c.find(), c.graph()
	out := &capabilities.SDK{Module: sdkModule, Version: c.sdk[sdkModule].Module.Version}
	root := c.sdk[sdkModule]
	v, ok := root.types.Scope().Lookup("SDKProtocolVersion").(*types.Const)
	if !ok {
		t.Fatal("the SDK names no protocol version")
	}
	protocol, _ := constant.Int64Val(v.Val())
	out.Protocol = int(protocol)
	out.Members = c.members(u)
	for _, name := range contract {
		out.Types = append(out.Types, c.structOf(t, name, u))
	}
	out.Calls = c.calls(u, g)
	out.Events = c.kinds(u, "Type", "SessionEventType")
	out.Permissions = c.kinds(u, "Kind", "PermissionRequestKind")
	return out
}

func qualify(p *types.Package) string {
	if p.Path() == sdkModule {
		return ""
	}
	return p.Name()
}

// members lists the methods of Client and Session.
func (c *code) members(u *uses) []capabilities.Member {
	var out []capabilities.Member
	for obj, fn := range c.sdk[sdkModule].functions() {
		owner := ""
		if recv := obj.Signature().Recv(); recv != nil {
			owner = strings.TrimPrefix(named(recv.Type()), sdkModule+".")
		}
		if (owner == "Client" || owner == "Session") && obj.Exported() {
			out = append(out, capabilities.Member{Owner: owner, Name: obj.Name(), About: first(fn.Doc),
				Signature: strings.TrimPrefix(types.TypeString(obj.Signature(), qualify), "func"), Uses: u.of(obj.FullName())})
		}
	}
	slices.SortFunc(out, func(x, y capabilities.Member) int { return strings.Compare(x.Owner+"."+x.Name, y.Owner+"."+y.Name) })
	return out
}

// structOf describes a struct with its exported fields in their order.
func (c *code) structOf(t *testing.T, name string, u *uses) capabilities.Type {
	t.Helper()
	path, short := sdkModule, name
	if rest, ok := strings.CutPrefix(name, "rpc."); ok {
		path, short = rpcPackage, rest
	}
	obj, ok := c.sdk[path].types.Scope().Lookup(short).(*types.TypeName)
	if !ok {
		t.Fatalf("the SDK no longer has a type %s", name)
	}
	home := named(obj.Type())
	spec, doc := c.sdk[path].spec(short)
	st, ok := obj.Type().Underlying().(*types.Struct)
	if !ok || spec == nil {
		t.Fatalf("%s is no longer a struct", name)
	}
	docs := map[string]string{}
	for _, f := range spec.Fields.List {
		for _, id := range f.Names {
			docs[id.Name] = first(f.Doc)
		}
	}
	out := capabilities.Type{Name: name, About: first(doc), Fields: []capabilities.TypeField{}}
	for f := range st.Fields() {
		if f.Exported() {
			out.Fields = append(out.Fields, capabilities.TypeField{Name: f.Name(), Type: types.TypeString(f.Type(), qualify), About: docs[f.Name()],
				Uses: u.of(home + "." + f.Name())})
		}
	}
	return out
}

// spec finds the declaration of a struct.
func (p *checked) spec(name string) (st *ast.StructType, doc *ast.CommentGroup) {
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if g, ok := n.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					if t, ok := s.(*ast.TypeSpec); ok && t.Name.Name == name {
						st, _ = t.Type.(*ast.StructType)
						doc = cmp.Or(t.Doc, g.Doc)
					}
				}
			}
			return st == nil
		})
	}
	return st, doc
}

// calls says for each method of the protocol who calls it.
func (c *code) calls(u *uses, g *graph) []capabilities.Call {
	through := map[string][]string{}
	for _, m := range c.members(u) {
		if len(m.Uses) == 0 {
			continue
		}
		for method := range g.reach("(*" + sdkModule + "." + m.Owner + ")." + m.Name) {
			through[method] = append(through[method], m.Owner+"."+m.Name)
		}
	}
	byMethod := map[string]capabilities.Call{}
	for _, fn := range slices.Sorted(maps.Keys(g.calls)) {
		short := strings.NewReplacer("(*", "", ")", "", sdkModule+"/", "", sdkModule+".", "").Replace(fn)
		for _, m := range g.calls[fn] {
			// The typed function of package rpc is the one to name.
			if old, ok := byMethod[m]; ok && (strings.HasPrefix(old.Func, "rpc.") || !strings.HasPrefix(short, "rpc.")) {
				continue
			}
			slices.Sort(through[m])
			if slices.Contains(through[m], "Client.Start") {
				through[m] = []string{"Client.Start"} // which the others call first
			}
			byMethod[m] = capabilities.Call{Method: m, Func: short, Uses: u.of(fn), Through: through[m]}
		}
	}
	return slices.SortedFunc(maps.Values(byMethod), func(x, y capabilities.Call) int { return strings.Compare(x.Method, y.Method) })
}

// kinds finds the members of a union by the method that names their kind.
func (c *code) kinds(u *uses, method, result string) []capabilities.EventUse {
	p := c.sdk[rpcPackage]
	var out []capabilities.EventUse
	for obj, fn := range p.functions() {
		recv := obj.Signature().Recv()
		if recv == nil || obj.Name() != method || len(fn.Body.List) != 1 || named(obj.Signature().Results().At(0).Type()) != rpcPackage+"."+result {
			continue
		}
		ret, ok := fn.Body.List[0].(*ast.ReturnStmt)
		if !ok || len(ret.Results) != 1 || p.info.Types[ret.Results[0]].Value == nil { // without a value: the kind for unknown ones
			continue
		}
		data := named(recv.Type())
		out = append(out, capabilities.EventUse{Name: constant.StringVal(p.info.Types[ret.Results[0]].Value), Type: strings.TrimPrefix(data, rpcPackage+"."),
			Uses: u.of(data), Dropped: u.dropped[data] && !u.kept[data], Fields: wireNames(recv.Type())})
	}
	slices.SortFunc(out, func(x, y capabilities.EventUse) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// wireNames are the names that a struct's fields have in JSON.
func wireNames(t types.Type) []string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	st, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	var out []string
	for i := range st.NumFields() {
		name, _, _ := strings.Cut(reflect.StructTag(st.Tag(i)).Get("json"), ",")
		if name != "" && name != "-" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// first is the first sentence of a comment.
func first(g *ast.CommentGroup) string {
	if g == nil {
		return ""
	}
	text, _, _ := strings.Cut(g.Text(), "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	if i := strings.Index(text, ". "); i >= 0 {
		text = text[:i+1]
	}
	return text
}
