package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

func TestWindowWithSeveralFolders(t *testing.T) {
	api := tree(t, map[string]string{"src/a.go": "needle\n", "Makefile": "where:\n\t@pwd\n"})
	web := tree(t, map[string]string{"src/b.ts": "needle\n", "src/c.ts": "needle\n", ".agent-policy.yaml": "writes: {deny: ['secret/**']}\nshell: {allow: ['make where', 'builtin:read-only']}\n"})
	x := models()
	x.Folders = []editor.Folder{{Name: "app", Path: api}, {Name: "app", Path: web}}
	w := startWindow(t, x, nil, "--read-write")
	type listing struct {
		Files     []string
		Truncated bool
	}
	for params, want := range map[string]string{
		`{}`: "app/Makefile app/src/a.go app (2)/src/b.ts app (2)/src/c.ts", `{"glob":"*.ts"}`: "app (2)/src/b.ts app (2)/src/c.ts",
		`{"glob":"app/**"}`: "app/Makefile app/src/a.go", `{"glob":"**/src/*.go"}`: "app/src/a.go", `{"glob":"src/**"}`: "", `{"exclude":"app (2)"}`: "app/Makefile app/src/a.go",
		`{"exclude":["app*/src/c.ts","app/Makefile"]}`: "app/src/a.go app (2)/src/b.ts",
	} {
		if l := result[listing](w, "mcp.fs.list", json.RawMessage(params)); strings.Join(l.Files, " ") != want || l.Truncated {
			t.Errorf("%s lists %q", params, l.Files)
		}
	}
	if l := result[listing](w, "mcp.fs.list", object{"limit": 2}); len(l.Files) != 2 || !l.Truncated {
		t.Errorf("%+v", l)
	}
	if l := result[listing](w, "mcp.fs.list", object{"limit": 4}); len(l.Files) != 4 || l.Truncated {
		t.Errorf("%+v", l)
	}
	type hits struct {
		Hits      []struct{ File string }
		Truncated bool
	}
	if h := result[hits](w, "mcp.search.code", object{"query": "needle"}); len(h.Hits) != 3 || h.Hits[0].File != "app/src/a.go" || h.Hits[2].File != "app (2)/src/c.ts" {
		t.Errorf("%+v", h)
	}
	if h := result[hits](w, "mcp.search.code", object{"query": "needle", "maxResults": 2}); len(h.Hits) != 2 || !h.Truncated {
		t.Errorf("%+v", h)
	}
	if c := result[struct{ Path, Content string }](w, "mcp.fs.read", object{"path": "app (2)/src/b.ts"}); c.Content != "needle\n" || c.Path != "app (2)/src/b.ts" {
		t.Errorf("%+v", c)
	}
	if _, f := w.rpc("mcp.fs.read", object{"path": "src/b.ts"}); f == nil || !strings.Contains(f.Error(), "app (2)") {
		t.Errorf("%v", f)
	}
	// One diff for both is one edit.
	w.Type(filepath.Join(web, "src/b.ts"), "typed\n")
	both := diffOf("app/src/a.go", "needle", "pin") + diffOf("app (2)/src/b.ts", "typed", "pin")
	if r := result[patched](w, "mcp.edit.applyPatch", object{"unifiedDiff": both}); !r.OK || w.Edits() != 1 || len(r.Files) != 2 || r.Files[1].Path != "app (2)/src/b.ts" ||
		onDisk(t, api, "src/a.go") != "pin\n" || onDisk(t, web, "src/b.ts") != "pin\n" {
		t.Errorf("%+v, %d edits", r, w.Edits())
	}
	conflict := diffOf("app/src/a.go", "pin", "x") + diffOf("app (2)/src/c.ts", "other", "x")
	if r := result[patched](w, "mcp.edit.applyPatch", object{"unifiedDiff": conflict}); r.OK || len(r.Conflicts) != 1 || r.Conflicts[0].File != "app (2)/src/c.ts" || w.Edits() != 1 {
		t.Errorf("%+v", r)
	}
	// Each folder has its own policy.
	for folder, code := range map[string]string{"app": "", "app (2)": "denied"} {
		_, f := w.rpc("mcp.edit.applyPatch", object{"unifiedDiff": "--- /dev/null\n+++ b/" + folder + "/secret/x\n@@ -0,0 +1 @@\n+x\n"})
		if (f == nil) != (code == "") || f != nil && f.Data.Code != code {
			t.Errorf("%s: %v", folder, f)
		}
	}
	// Commands run in their folder.
	if _, f := w.rpc("mcp.shell.run", object{"cmd": "pwd"}); f == nil || !strings.Contains(f.Error(), "app (2)") {
		t.Errorf("without a folder: %v", f)
	}
	if r := result[struct{ Stdout string }](w, "mcp.shell.run", object{"cmd": "pwd", "folder": "app (2)"}); strings.TrimSpace(r.Stdout) != web {
		t.Errorf("%q", r.Stdout)
	}
	tasks := result[struct{ Tasks []struct{ Name string } }](w, "mcp.task.list", object{})
	if len(tasks.Tasks) != 1 || tasks.Tasks[0].Name != "app/make:where" {
		t.Errorf("%+v", tasks)
	}
	st := result[struct {
		Folders []struct{ Name, Path string }
	}](w, "bridge.status", object{})
	if len(st.Folders) != 2 || st.Folders[1].Name != "app (2)" || st.Folders[1].Path != web {
		t.Errorf("%+v", st)
	}

	// Folders come and go without a restart.
	settled := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
			if len(result[struct {
				Folders []struct{ Name string }
			}](w, "bridge.status", object{}).Folders) == want {
				return
			}
		}
		t.Fatalf("there are not %d folders", want)
	}
	w.Notify("editor.folders", object{"folders": []editor.Folder{{Name: "web", Path: web}}})
	settled(1)
	if c := result[struct{ Path string }](w, "mcp.fs.read", object{"path": "src/b.ts"}); c.Path != "src/b.ts" {
		t.Errorf("%+v", c)
	}
	w.Notify("editor.folders", object{"folders": []editor.Folder{}})
	settled(0)
	if _, f := w.rpc("mcp.fs.list", object{}); f == nil || f.Data.Code != "unavailable" || !strings.Contains(f.Message, "no folder") {
		t.Errorf("without folders: %v", f)
	}
	if code, body := w.post("/v1/chat/completions", say("gpt-5", "text still here")); code != http.StatusOK || !strings.Contains(body, "still here") {
		t.Errorf("%d %s", code, body)
	}
}

func TestWindowWithoutFolder(t *testing.T) {
	w := startWindow(t, models(), nil)
	if _, f := w.rpc("mcp.search.code", object{"query": "x"}); f == nil || f.Data.Code != "unavailable" {
		t.Errorf("%v", f)
	}
	if code, body := w.post("/v1/chat/completions", say("gpt-5", "text here")); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
}

// Health is that of the last request, and the extension is told of changes.
func TestWindowHealth(t *testing.T) {
	w := startWindow(t, models(), nil)
	state := func(want editor.Copilot) {
		t.Helper()
		w.Await(t, "bridge.state", func(p json.RawMessage) bool {
			var s editor.State
			return json.Unmarshal(p, &s) == nil && s.Copilot == want
		})
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
			code, body := w.get("/healthz")
			if code == http.StatusOK && strings.Contains(body, `"copilot":"`+string(want)+`"`) && strings.Contains(body, `"ok":true`) {
				return
			}
		}
		_, body := w.get("/healthz")
		t.Errorf("want %s, health is %s", want, body)
	}
	w.post("/v1/chat/completions", say("gpt-5", "fault consent_required not yet"))
	state(editor.CopilotConsent)
	if err := w.Ask(t, "bridge.consented", nil); err != nil {
		t.Error(err)
	}
	state(editor.CopilotOK)
	models := w.Models
	w.SetModels()
	w.Notify("lm.changed", object{})
	state(editor.CopilotUnavailable)
	if code, body := w.get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, body)
	}
	w.SetModels(append(models, editor.Model{ID: "brand-new"})...)
	w.Notify("lm.changed", object{})
	state(editor.CopilotOK)
	if code, body := w.get("/v1/models"); code != http.StatusOK || !strings.Contains(body, "brand-new") {
		t.Errorf("%d %s", code, body)
	}
	w.Await(t, "bridge.state", func(p json.RawMessage) bool {
		var s editor.State
		return json.Unmarshal(p, &s) == nil && s.Requests == 1
	})
}

// Programs of the same user find the window in whose folder they are.
func TestWindowIsFound(t *testing.T) {
	dir := tree(t, map[string]string{"sub/a.txt": "one\n"})
	w := startWindow(t, models(), []string{dir})
	entry := filepath.Join(w.world.home, ".copilot-bridge", "windows", fmt.Sprint(os.Getpid(), ".json"))
	info, err := os.Stat(entry)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	killed := filepath.Join(filepath.Dir(entry), "1.json")
	if err := os.WriteFile(killed, []byte(`{"url":"http://127.0.0.1:1","folders":["/"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	other := &world{out: &buffer{}, err: &buffer{}, home: w.world.home}
	other.Env = w.world.Env
	other.Environ = []string{"PATH=" + os.Getenv("PATH")}
	other.Dir = filepath.Join(dir, "sub")
	if code := other.rpc("mcp.fs.read", `{"path":"sub/a.txt"}`, "--json"); code != 0 || !strings.Contains(other.out.String(), `"one\n"`) {
		t.Errorf("%d: %s%s", code, other.out, other.err)
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("the entry of a dead window is still there")
	}
	other.Dir = t.TempDir()
	if code := other.rpc("bridge.status", "--window", fmt.Sprint(os.Getpid()), "--json"); code != 0 || strings.Contains(other.out.String(), windowToken) {
		t.Errorf("%d: %s%s", code, other.out, other.err)
	}
	other.out, other.err = &buffer{}, &buffer{}
	other.Stdout, other.Stderr = other.out, other.err
	if other.run("validate", "--json"); !strings.Contains(other.out.String(), "a window answers at "+w.ready.URL) {
		t.Errorf("validate says %s%s", other.out, other.err)
	}
	if code := other.rpc("bridge.status", "--window", "1"); code == 0 {
		t.Errorf("a window that there is not: %s", other.out)
	}
	if code := w.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left, err := os.ReadDir(filepath.Dir(entry)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The same folders get the same port again; two windows have two.
func TestWindowPorts(t *testing.T) {
	dir := t.TempDir()
	first := startWindow(t, models(), []string{dir}, "--rpc-port", "0")
	if first.ready.RPC == "ws"+strings.TrimPrefix(first.ready.URL, "http")+"/rpc" {
		t.Errorf("%+v", first.ready)
	}
	second := startWindow(t, models(), []string{dir})
	if first.ready.URL == second.ready.URL {
		t.Errorf("both at %s", first.ready.URL)
	}
}

// The tool bus speaks MCP, too.
func TestWindowServesMCP(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": "on disk\n"})
	w := startWindow(t, models(), []string{dir})
	w.Type(filepath.Join(dir, "a.txt"), "typed\n")
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: w.ready.MCP, HTTPClient: &http.Client{Transport: bearer{&http.Transport{DisableKeepAlives: true}}}, DisableStandaloneSSE: true}
	s, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	readOnly := map[string]bool{}
	for _, tool := range tools.Tools {
		if !regexp.MustCompile(`^[\w-]+$`).MatchString(tool.Name) || tool.Description == "" {
			t.Errorf("%+v", tool)
		}
		readOnly[tool.Name] = tool.Annotations.ReadOnlyHint
	}
	for name, want := range map[string]bool{"fs_read": true, "fs_list": true, "search_code": true, "symbols_list": true, "edit_applyPatch": false, "format_apply": false, "imports_organize": false, "task_list": true, "task_run": false, "shell_run": false} {
		if got, ok := readOnly[name]; !ok || got != want {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	call := func(name string, args object) (string, bool) {
		t.Helper()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		return text.Text, r.IsError
	}
	if text, failed := call("fs_read", object{"path": "a.txt"}); failed || !strings.Contains(text, `"content":"typed\n"`) {
		t.Errorf("%s", text)
	}
	if text, failed := call("edit_applyPatch", object{"unifiedDiff": diffOf("a.txt", "typed", "x")}); !failed || !strings.Contains(text, "[denied]") {
		t.Errorf("%s", text)
	}
	if text, failed := call("fs_read", object{"pth": "a.txt"}); !failed || !strings.Contains(text, "path") {
		t.Errorf("%s", text)
	}
}

type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+windowToken)
	return b.RoundTripper.RoundTrip(r)
}
