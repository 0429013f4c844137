// Package layout checks the import direction of docs/ARCHITECTURE.md: protocols
// and commands import the engine, everything may import package bridge, and no
// import goes the other way.
package layout

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/copilot-bridge/copilot-bridge/"

// allowed lists the packages of this module that each package may import. A
// package without an entry fails the test. Tests may import more.
var allowed = map[string][]string{
	"":                   {"bridge", "internal/app", "internal/config", "internal/copilotruntime", "internal/engine", "internal/guard/approval", "internal/guard/policy", "internal/orchestrate", "internal/program", "internal/supervise"},
	"examples":           {},
	"examples/agent":     {"", "bridge"},
	"examples/chat":      {"", "bridge"},
	"examples/server":    {""},
	"cmd/copilot-bridge": {"internal/cli"},
	"internal/cli": {"internal/answers", "internal/app", "bridge", "internal/capabilities", "internal/cli/view", "internal/config", "internal/copilotruntime", "internal/api/abp/contract", "internal/engine", "internal/fleet",
		"internal/guard/approval", "internal/guard/audit", "internal/guard/policy", "internal/guard/redact", "internal/clientsettings", "internal/durable", "internal/launch", "internal/live", "internal/mcpimport", "internal/openclaw/registration", "internal/orchestrate", "internal/program", "internal/serves", "internal/sessionstore", "internal/supervise", "internal/text", "internal/timeline", "internal/upkeep", "internal/usagelog"},
	"internal/cli/view":  {"bridge", "internal/copilotruntime", "internal/engine", "internal/fleet", "internal/guard/approval", "internal/guard/redact", "internal/live", "internal/orchestrate", "internal/text", "internal/timeline", "internal/usagelog"},
	"internal/mcpimport": {"internal/config", "internal/openclaw/json5"},
	"internal/answers":   {"bridge", "internal/config", "internal/program"},
	"internal/app": {"internal/answers", "internal/agent/acp", "internal/agent/runner", "internal/agent/sdk", "internal/agent/vscode", "bridge", "internal/engine/chat", "internal/config", "internal/api/abp", "internal/api/abp/contract", "internal/api/acp", "internal/api/anthropic", "internal/httpserver", "internal/metrics", "internal/api/dashboard", "internal/api/mcp", "internal/api/openai", "internal/api/toolbus", "internal/git", "internal/openclaw", "internal/openclaw/registration", "internal/copilotruntime", "internal/durable", "internal/editor", "internal/engine", "internal/fleet", "internal/fleet/coordinator", "internal/fleet/hub", "internal/fleet/worker", "internal/workspace", "internal/workspace/files", "internal/workspace/lsp", "internal/workspace/search", "internal/workspace/task",
		"internal/guard", "internal/guard/approval", "internal/guard/audit", "internal/guard/paths", "internal/guard/policy",
		"internal/guard/redact", "internal/guard/repo", "internal/guard/sandbox", "internal/orchestrate", "internal/program", "internal/demomodel", "internal/sessionstore", "internal/supervise", "internal/traces", "internal/upkeep", "internal/usagelog", "internal/live", "internal/text", "internal/timeline"},
	"internal/engine/chat":       {"bridge", "internal/engine", "internal/text", "internal/traces"},
	"internal/engine":            {"bridge", "internal/sessionstore", "internal/text", "internal/traces", "internal/usagelog"},
	"internal/acpwire":           {"internal/jsonrpc"},
	"internal/testing/acpschema": {},
	"internal/agentfiles":        {"bridge"},
	"internal/agent/acp":         {"internal/agent/session", "internal/acpwire", "internal/agent/environ", "internal/agentfiles", "bridge", "internal/jsonrpc", "internal/program", "internal/supervise"},
	"internal/agent/environ":     {},
	"internal/agent/session":     {"bridge"},
	"internal/agent/runner":      {"internal/agent/session", "internal/agent/environ", "internal/agentfiles", "bridge", "internal/program", "internal/supervise"},
	"internal/agent/sdk":         {"internal/agent/session", "internal/agent/environ", "bridge", "internal/durable", "internal/program", "internal/supervise", "internal/text"},
	"internal/agent/vscode":      {"internal/agent/session", "bridge", "internal/editor"},
	"internal/testing/agenttest": {"internal/agent/session", "bridge", "internal/engine"},
	"internal/guard": {"internal/agentfiles", "bridge", "internal/guard/approval", "internal/guard/audit", "internal/guard/paths", "internal/guard/policy",
		"internal/guard/redact", "internal/guard/repo", "internal/guard/runtimecall", "internal/guard/sandbox", "internal/guard/shell", "internal/traces"},
	"internal/guard/approval":        {"bridge"},
	"internal/guard/audit":           {"bridge", "internal/durable"},
	"internal/testing/guardtest":     {},
	"internal/testing/errorcases":    {},
	"internal/guard/paths":           {"bridge", "internal/text"},
	"internal/guard/policy":          {"bridge", "internal/durable", "internal/text"},
	"internal/guard/redact":          {},
	"internal/guard/repo":            {},
	"internal/guard/runtimecall":     {},
	"internal/guard/sandbox":         {"bridge", "internal/durable", "internal/program"},
	"internal/guard/shell":           {"bridge", "internal/text"},
	"internal/capabilities":          {"bridge", "internal/guard/runtimecall"},
	"tools/capabilities":             {},
	"tools/release":                  {"internal/cli"},
	"internal/config":                {"bridge", "internal/durable", "internal/text"},
	"internal/copilotruntime":        {"bridge", "internal/durable", "internal/program", "internal/text"},
	"internal/testing/runtimetest":   {"bridge", "internal/copilotruntime"},
	"internal/testing/githubtest":    {"internal/demomodel"},
	"internal/api/acp":               {"internal/acpwire", "bridge", "internal/guard/approval", "internal/jsonrpc"},
	"internal/api/wire":              {"bridge", "internal/text"},
	"internal/httpserver":            {"bridge", "internal/api/wire", "internal/durable", "internal/metrics", "internal/text", "internal/traces"},
	"internal/metrics":               {},
	"internal/traces":                {"bridge"},
	"internal/api/abp":               {"bridge", "internal/durable", "internal/api/abp/contract", "internal/git", "internal/jsonrpc"},
	"internal/api/abp/contract":      {},
	"internal/api/openai":            {"bridge", "internal/api/wire"},
	"internal/api/dashboard":         {"bridge", "internal/api/wire", "internal/live", "internal/text", "internal/timeline", "internal/guard/audit", "internal/usagelog"},
	"internal/api/anthropic":         {"bridge", "internal/api/wire"},
	"internal/api/mcp":               {"bridge", "internal/api/wire", "internal/guard", "internal/guard/approval", "internal/jsonrpc", "internal/openclaw", "internal/workspace", "internal/workspace/files"},
	"internal/openclaw":              {"bridge", "internal/openclaw/gateway", "internal/openclaw/json5", "internal/openclaw/memory"},
	"internal/openclaw/json5":        {},
	"internal/openclaw/registration": {"extensions/openclaw", "bridge", "internal/config", "internal/durable", "internal/guard/redact", "internal/openclaw", "internal/openclaw/json5", "internal/program"},
	"internal/openclaw/gateway":      {"bridge", "internal/durable", "internal/text"},
	"internal/openclaw/memory":       {"bridge"},
	"internal/api/toolbus": {"bridge", "internal/api/wire", "internal/guard/approval", "internal/jsonrpc", "internal/text", "internal/workspace", "internal/workspace/files", "internal/workspace/lsp",
		"internal/workspace/patch", "internal/workspace/search", "internal/workspace/task"},
	"internal/durable":            {"bridge"},
	"internal/editor":             {"bridge", "internal/durable", "internal/guard/approval", "internal/jsonrpc"},
	"internal/jsonrpc":            {},
	"internal/testing/editortest": {"internal/editor", "internal/jsonrpc"},
	"internal/fleet":              {"bridge", "internal/durable"},
	"internal/fleet/hub":          {"bridge", "internal/durable", "internal/fleet"},
	"internal/fleet/worker":       {"bridge", "internal/durable", "internal/fleet", "internal/fleet/bundle", "internal/git", "internal/text"},
	"internal/fleet/bundle":       {"bridge", "internal/durable", "internal/fleet", "internal/git"},
	"internal/fleet/coordinator":  {"bridge", "internal/fleet", "internal/fleet/bundle", "internal/git", "internal/orchestrate", "internal/supervise", "internal/text"},
	"internal/testing/fleettest":  {"internal/fleet", "internal/fleet/hub", "internal/testing/programtest"},
	"internal/program":            {"bridge", "internal/supervise"},
	"internal/git":                {"bridge", "internal/program"},
	"internal/orchestrate":        {"bridge", "internal/durable", "internal/git", "internal/text"},
	"internal/demomodel":          {"bridge", "internal/text"},
	"internal/clientsettings":     {"bridge", "internal/durable", "internal/openclaw/json5"},
	"internal/serves":             {"internal/durable", "internal/supervise"},
	"internal/launch":             {"bridge", "internal/api/wire", "internal/httpserver", "internal/program", "internal/text"},
	"internal/sessionstore":       {"bridge", "internal/durable"},
	"internal/live":               {"bridge", "internal/durable", "internal/supervise", "internal/guard/approval"},
	"internal/timeline":           {"bridge", "internal/durable", "internal/live", "internal/text"},
	"internal/upkeep":             {"bridge", "internal/agent/sdk", "internal/config", "internal/guard/sandbox", "internal/orchestrate", "internal/sessionstore", "internal/supervise", "internal/timeline"},
	"internal/supervise":          {},
	"internal/usagelog":           {"internal/durable"},
	"internal/text":               {},
	"internal/workspace": {"bridge", "internal/editor", "internal/guard", "internal/program", "internal/workspace/files", "internal/workspace/lsp", "internal/workspace/patch",
		"internal/workspace/search", "internal/workspace/task"},
	"internal/workspace/files":        {"bridge", "internal/text", "internal/workspace/files/ignore"},
	"internal/workspace/files/ignore": {},
	"internal/workspace/search":       {"bridge", "internal/program", "internal/workspace/files"},
	"internal/workspace/lsp":          {"bridge", "internal/jsonrpc", "internal/program", "internal/text", "internal/workspace/files", "internal/workspace/task"},
	"internal/testing/languagetest":   {"internal/durable"},
	"internal/workspace/patch":        {"bridge", "internal/durable", "internal/text"},
	"internal/workspace/task":         {"bridge", "internal/program", "internal/text", "internal/workspace/files"},
	"bridge":                          {},
	"extensions/openclaw":             {},
	"test/docs":                       {},
	"test/layout":                     {},
	"test/attempts":                   {},
	"test/e2e":                        {},
	"test/bench":                      {},
	"test/browser":                    {},
	"test/fleet":                      {},
	"test/load":                       {},
	"test/soak":                       {"internal/testing/runtimetest", "internal/demomodel"},
	"test/clients":                    {},
	"test/openclaw":                   {},
	"test/openclaw/gateway":           {},
	"internal/testing/tracetest":      {},
	"internal/testing/openclawtest":   {"internal/testing/languagetest", "internal/testing/programtest"},
	"internal/testing/programtest":    {"internal/demomodel"},
	"test/oracle":                     {},
	"test/release":                    {},
	"test/vscode":                     {},
}

// relative is a package's path in this module, "" for the module itself. Paths
// of other modules stay unchanged.
func relative(path string) string {
	if path+"/" == module {
		return ""
	}
	return strings.TrimPrefix(path, module)
}

type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []listed { return packagesFor(t, runtime.GOOS) }

func packagesFor(t *testing.T, system string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", strings.TrimSuffix(module, "/")+"/...")
	cmd.Env = append(os.Environ(), "GOOS="+system)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func TestImportDirection(t *testing.T) {
	for _, p := range packages(t) {
		name := relative(p.ImportPath)
		may, known := allowed[name]
		if !known {
			t.Errorf("%s is not in the table: decide what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			if own := relative(imp); own != imp && !slices.Contains(may, own) {
				t.Errorf("%s must not import %s", name, own)
			}
		}
	}
}

func TestDomainIsStandardLibraryOnly(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != module+"bridge" {
			continue
		}
		for _, imp := range p.Imports {
			if strings.Contains(imp, ".") {
				t.Errorf("bridge imports %s", imp)
			}
		}
		return
	}
	t.Fatal("bridge was not listed")
}

// Only package program, and the supervisor below it, start programs, on every
// system. Test packages are exempt.
func TestOneWayToStartAProgram(t *testing.T) {
	starts := regexp.MustCompile(`\b(os\.StartProcess|syscall\.(ForkExec|Exec|StartProcess|CreateProcess)|unix\.Exec)\(`)
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, p := range packagesFor(t, system) {
			name := relative(p.ImportPath)
			if name == "internal/program" || strings.HasSuffix(name, "test") {
				continue
			}
			if slices.Contains(p.Imports, "os/exec") {
				t.Errorf("%s (%s) imports os/exec: use internal/program", name, system)
			}
			for _, file := range p.GoFiles {
				text, err := os.ReadFile(filepath.Join(p.Dir, file))
				if err != nil {
					t.Fatal(err)
				}
				if found := starts.Find(text); found != nil && name != "internal/supervise" {
					t.Errorf("%s (%s) has %s: use internal/program", filepath.Join(name, file), system, found)
				}
			}
		}
	}
}

// No code of the program calls methods by a name that is not a constant, as template
// engines do: the linker would keep every exported method of every type, a tenth of the
// program.
func TestNoMethodsByName(t *testing.T) {
	byName := regexp.MustCompile(`(?s)\n(\t|import )"reflect"\n.*\.(Method|Methods|MethodByName)\(|\.Set(Usage|Help|Version)Template\(`)
	for _, p := range packages(t) {
		name := relative(p.ImportPath)
		for _, engine := range []string{"text/template", "html/template"} {
			if slices.Contains(p.Imports, engine) {
				t.Errorf("%s imports %s: write the text with strings.NewReplacer or functions", name, engine)
			}
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if byName.Match(text) {
				t.Errorf("%s calls or shows methods by name: keep a table of method expressions", filepath.Join(name, file))
			}
		}
	}
}

// Package names say what the package provides.
func TestPackageNamesSaySomething(t *testing.T) {
	for _, p := range packages(t) {
		for _, part := range strings.Split(relative(p.ImportPath), "/") {
			if slices.Contains([]string{"util", "utils", "common", "types", "helpers", "interfaces", "misc"}, part) {
				t.Errorf("%s: name it for what it provides", p.ImportPath)
			}
		}
	}
}

// All exported names of the public packages have a comment.
func TestPublicIsDocumented(t *testing.T) {
	for _, dir := range []string{"../..", "../../bridge"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		set := token.NewFileSet()
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				for _, name := range undocumented(d) {
					t.Errorf("%s: %s has no comment", set.Position(d.Pos()), name)
				}
			}
		}
	}
}

// undocumented lists the exported names in a declaration without a comment. One
// comment is enough for a group of constants.
func undocumented(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		exported := d.Name.IsExported()
		if d.Recv != nil {
			exported = exported && ast.IsExported(strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*"))
		}
		if exported && d.Doc == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, s.Names[0].Name)
				}
			}
		}
	}
	return names
}
