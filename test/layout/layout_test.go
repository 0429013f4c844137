// Package layout holds the import direction of docs/design.md: doors and
// commands point at the engine, everything points at bridge, nothing points
// back.
package layout

import (
	"encoding/json"
	"errors"
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

// allowed lists what the packages of this module may import of it. A package
// that is not here has not been thought about yet. Tests may import more.
var allowed = map[string][]string{
	"cmd/copilot-bridge": {"internal/cli"},
	"internal/cli": {"internal/app", "internal/bridge", "internal/capabilities", "internal/capabilities/probe", "internal/config", "internal/copilotruntime", "internal/door/abp/contract", "internal/engine",
		"internal/guard/approval", "internal/guard/audit", "internal/guard/policy", "internal/guard/redact", "internal/openclaw/registration", "internal/orchestrate", "internal/program", "internal/sessionstore", "internal/supervise"},
	"internal/app": {"internal/agent/acp", "internal/agent/auto", "internal/agent/runner", "internal/agent/sdk", "internal/agent/vscode", "internal/bridge", "internal/chat", "internal/config", "internal/door/abp", "internal/door/abp/contract", "internal/door/acp", "internal/door/anthropic", "internal/door/front", "internal/door/mcp", "internal/door/openai", "internal/door/toolbus", "internal/git", "internal/openclaw", "internal/openclaw/registration", "internal/copilotruntime", "internal/durable", "internal/editor", "internal/engine", "internal/workspace", "internal/workspace/files", "internal/workspace/language", "internal/workspace/search", "internal/workspace/task",
		"internal/guard", "internal/guard/approval", "internal/guard/audit", "internal/guard/paths", "internal/guard/policy",
		"internal/guard/redact", "internal/guard/repo", "internal/guard/sandbox", "internal/orchestrate", "internal/program", "internal/rehearsal", "internal/sessionstore", "internal/supervise"},
	"internal/chat":              {"internal/bridge", "internal/engine"},
	"internal/engine":            {"internal/bridge", "internal/sessionstore"},
	"internal/acpwire":           {"internal/lineconn"},
	"internal/acpwire/acpschema": {},
	"internal/agentfiles":        {"internal/bridge"},
	"internal/agent/acp":         {"internal/acpwire", "internal/agent/environ", "internal/agentfiles", "internal/bridge", "internal/program", "internal/supervise"},
	"internal/agent/auto":        {"internal/bridge"},
	"internal/agent/environ":     {},
	"internal/agent/runner":      {"internal/agent/environ", "internal/agentfiles", "internal/bridge", "internal/program", "internal/supervise"},
	"internal/agent/sdk":         {"internal/agent/environ", "internal/bridge", "internal/durable", "internal/program", "internal/supervise"},
	"internal/agent/vscode":      {"internal/bridge", "internal/editor"},
	"internal/agent/agenttest":   {"internal/bridge", "internal/engine"},
	"internal/guard": {"internal/agentfiles", "internal/bridge", "internal/guard/approval", "internal/guard/audit", "internal/guard/paths", "internal/guard/policy",
		"internal/guard/redact", "internal/guard/repo", "internal/guard/shell"},
	"internal/guard/approval":             {"internal/bridge"},
	"internal/guard/audit":                {"internal/bridge", "internal/durable"},
	"internal/guard/guardtest":            {},
	"internal/guard/paths":                {"internal/bridge"},
	"internal/guard/policy":               {"internal/bridge", "internal/durable"},
	"internal/guard/redact":               {},
	"internal/guard/repo":                 {},
	"internal/guard/sandbox":              {"internal/bridge", "internal/durable", "internal/program"},
	"internal/guard/shell":                {"internal/bridge"},
	"internal/capabilities":               {"internal/bridge"},
	"internal/capabilities/generate":      {"internal/capabilities", "internal/copilotruntime", "internal/program"},
	"internal/capabilities/probe":         {"internal/capabilities", "internal/rehearsal", "internal/supervise"},
	"internal/config":                     {"internal/bridge"},
	"internal/copilotruntime":             {"internal/bridge", "internal/durable", "internal/program"},
	"internal/copilotruntime/runtimetest": {"internal/bridge", "internal/copilotruntime"},
	"internal/door/acp":                   {"internal/acpwire", "internal/bridge", "internal/guard/approval"},
	"internal/door/wire":                  {"internal/bridge"},
	"internal/door/front":                 {"internal/bridge", "internal/door/wire", "internal/durable"},
	"internal/door/abp":                   {"internal/bridge", "internal/door/abp/contract", "internal/git"},
	"internal/door/abp/contract":          {},
	"internal/door/openai":                {"internal/bridge", "internal/door/wire"},
	"internal/door/anthropic":             {"internal/bridge", "internal/door/wire"},
	"internal/door/mcp":                   {"internal/bridge", "internal/guard/approval"},
	"internal/openclaw":                   {"internal/bridge", "internal/openclaw/gateway", "internal/openclaw/json5", "internal/openclaw/memory"},
	"internal/openclaw/json5":             {},
	"internal/openclaw/registration":      {"extensions/openclaw", "internal/bridge", "internal/durable", "internal/guard/redact", "internal/openclaw", "internal/openclaw/json5", "internal/program"},
	"internal/openclaw/gateway":           {"internal/bridge", "internal/durable"},
	"internal/openclaw/memory":            {"internal/bridge"},
	"internal/door/toolbus": {"internal/bridge", "internal/door/wire", "internal/guard/approval", "internal/workspace/files", "internal/workspace/language",
		"internal/workspace/patch", "internal/workspace/search", "internal/workspace/task"},
	"internal/durable":           {"internal/bridge"},
	"internal/editor":            {"internal/bridge", "internal/lineconn"},
	"internal/lineconn":          {},
	"internal/editor/editortest": {"internal/editor"},
	"internal/program":           {"internal/bridge", "internal/supervise"},
	"internal/git":               {"internal/bridge", "internal/program"},
	"internal/orchestrate":       {"internal/bridge", "internal/durable", "internal/git"},
	"internal/rehearsal":         {"internal/bridge"},
	"internal/sessionstore":      {"internal/bridge", "internal/durable"},
	"internal/supervise":         {},
	"internal/workspace": {"internal/bridge", "internal/program", "internal/workspace/files", "internal/workspace/language", "internal/workspace/patch",
		"internal/workspace/search", "internal/workspace/task"},
	"internal/workspace/files":                 {"internal/bridge", "internal/workspace/files/ignore"},
	"internal/workspace/files/ignore":          {},
	"internal/workspace/search":                {"internal/bridge", "internal/program", "internal/workspace/files"},
	"internal/workspace/language":              {"internal/bridge", "internal/program", "internal/workspace/task"},
	"internal/workspace/language/languagetest": {"internal/durable"},
	"internal/workspace/patch":                 {"internal/bridge", "internal/durable"},
	"internal/workspace/task":                  {"internal/bridge", "internal/program"},
	"internal/bridge":                          {},
	"extensions/openclaw":                      {},
	"test/layout":                              {},
	"test/attempts":                            {},
	"test/e2e":                                 {},
	"test/bench":                               {},
	"test/load":                                {},
	"test/clients":                             {},
	"test/openclaw":                            {},
	"test/openclaw/gateway":                    {},
	"test/openclaw/openclawtest":               {"internal/durable"},
	"test/oracle":                              {},
	"test/vscode":                              {},
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
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"...")
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
		name := strings.TrimPrefix(p.ImportPath, module)
		may, known := allowed[name]
		if !known {
			t.Errorf("%s is not in the table: decide what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			if own, ok := strings.CutPrefix(imp, module); ok && !slices.Contains(may, own) {
				t.Errorf("%s must not import %s", name, own)
			}
		}
	}
}

func TestDomainIsStandardLibraryOnly(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != module+"internal/bridge" {
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

// There is one way to start a program, on every system: package program, and
// below it the supervisor, which starts what it is told to. Packages for tests
// are left out.
func TestOneWayToStartAProgram(t *testing.T) {
	starts := regexp.MustCompile(`\b(os\.StartProcess|syscall\.(ForkExec|Exec|StartProcess|CreateProcess)|unix\.Exec)\(`)
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, p := range packagesFor(t, system) {
			name := strings.TrimPrefix(p.ImportPath, module)
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

// Names that say nothing about what a package provides.
func TestPackageNamesSaySomething(t *testing.T) {
	for _, p := range packages(t) {
		for _, part := range strings.Split(strings.TrimPrefix(p.ImportPath, module), "/") {
			if slices.Contains([]string{"util", "utils", "common", "types", "helpers", "interfaces", "misc"}, part) {
				t.Errorf("%s: name it for what it provides", p.ImportPath)
			}
		}
	}
}
