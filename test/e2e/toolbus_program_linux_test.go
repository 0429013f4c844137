package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/languagetest"
)

// post sends one request over HTTP and returns the answer.
func (s *served) post(t *testing.T, method string, params any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	url := "http" + strings.TrimPrefix(s.rpc, "ws")
	resp, err := http.Post(url, "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// postBoth sends a request over HTTP and over a WebSocket.
func (s *served) postBoth(t *testing.T, method string, params any) []string {
	t.Helper()
	w, status := s.dial(t, nil)
	if w == nil {
		t.Fatal(status)
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	w.send(string(body))
	first := w.waitForMessage(`"jsonrpc":"2.0","id":7`) // progress messages have the ID deeper inside
	return []string{first, s.post(t, method, params)}
}

// checkNothingRun fails if a program of the workspace was run: each of them
// creates a file.
func (s *served) checkNothingRun(t *testing.T, what string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(s.dir, "made")); err == nil {
		t.Errorf("%s: a program of the workspace was run", what)
		if err := os.Remove(filepath.Join(s.dir, "made")); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *served) executable(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Chmod(filepath.Join(s.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

const evil = "#!/bin/sh\ntouch made\n"

// A command line runs in the shell for which it was judged. Its programs are
// the user's, even if PATH and the environment point elsewhere.
func TestToolBusLinesRunAsTheyWereJudged(t *testing.T) {
	t.Parallel()
	s := serveFiles(t, map[string]string{"~/policy.yaml": "shell: {allow: ['builtin:read-only']}\n", "bin/ls": evil, "bin/echo": evil, "bin/bash": evil, "rc": "touch made\n"},
		[]string{"PATH=bin::.:" + os.Getenv("PATH"), "BASH_ENV=rc", "ENV=rc", "BASH_FUNC_echo%%=() { touch made; }", "BASH_FUNC_ls%%=() { touch made; }", "SHELLOPTS=posix"},
		"--read-write")
	s.executable(t, "bin/ls", "bin/echo", "bin/bash")
	for _, tt := range []struct{ line, want string }{
		{`echo $'a\'; touch made #'`, "denied"}, // the guard cannot parse this
		{`echo $'a\\'; touch made #'`, "denied"},
		{`echo $'\x27; touch made; \''`, "denied"},
		{`((touch made))`, ""}, // a POSIX shell sees two subshells
		{"ls bin", `bash\necho\nls`},
		{"echo well", `well\n`},
	} {
		for _, got := range s.postBoth(t, "mcp.shell.run", map[string]any{"cmd": tt.line}) {
			if !strings.Contains(got, tt.want) {
				t.Errorf("%s: %s", tt.line, got)
			}
		}
		s.checkNothingRun(t, tt.line)
	}
}

// A task is judged with the variables and the directory from its file.
func TestToolBusTasksAreJudgedWhole(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	env := func(name, value string) string { return fmt.Sprintf(`"options":{"env":{%q:%q}}`, name, value) }
	var tasks []string
	for label, body := range map[string]string{
		"plain":    `"type":"process","command":"ls","args":["bin"]`,
		"below":    `"type":"process","command":"ls","options":{"cwd":"bin"}`,
		"path":     `"type":"process","command":"ls",` + env("PATH", "${workspaceFolder}/bin:${env:PATH}"),
		"line":     `"type":"shell","command":"ls",` + env("PATH", "${workspaceFolder}/bin:${env:PATH}"),
		"function": `"type":"shell","command":"ls",` + env("BASH_FUNC_ls%%", "() { touch made; }"),
		"rc":       `"type":"shell","command":"ls",` + env("BASH_ENV", "${workspaceFolder}/rc"),
		"preload":  `"type":"process","command":"ls",` + env("LD_PRELOAD", "${workspaceFolder}/x.so"),
		"any":      `"type":"process","command":"ls",` + env("ANYTHING", "1"),
		"any line": `"type":"shell","command":"ls",` + env("ANYTHING", "1"),
		"shell":    `"type":"shell","command":"ls","options":{"shell":{"executable":"${workspaceFolder}/bin/bash","args":["-c"]}}`,
		"link":     `"type":"process","command":"ls","options":{"cwd":"out"}`,
		"through":  `"type":"shell","command":"ls","options":{"cwd":"out/sub"}`,
		"outside":  `"type":"process","command":"ls","options":{"cwd":"` + outside + `"}`,
	} {
		tasks = append(tasks, fmt.Sprintf(`{"label":%q,%s}`, label, body))
	}
	s := serveFiles(t, map[string]string{"~/policy.yaml": "shell: {allow: ['builtin:read-only']}\n", "bin/ls": evil, "bin/bash": evil, "rc": "touch made\n",
		".vscode/tasks.json": `{"version":"2.0.0","tasks":[` + strings.Join(tasks, ",") + `]}`}, nil, "--read-write")
	s.executable(t, "bin/ls", "bin/bash")
	if err := os.MkdirAll(filepath.Join(outside, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "sub", "canary"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.dir, "out")); err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{
		"plain": `bash\nls\n`, "below": `bash\nls\n`, "path": "denied", "line": "denied", "function": "cannot be set", "rc": "denied", "preload": "denied",
		"any": "denied", "any line": "denied", "shell": "denied", "link": "leads out of the workspace", "through": "leads out of the workspace", "outside": "outside the workspace",
	} {
		for _, got := range s.postBoth(t, "mcp.task.run", map[string]any{"name": "vscode:" + label}) {
			if !strings.Contains(got, want) || strings.Contains(got, "canary") {
				t.Errorf("%s: %s", label, got)
			}
		}
		s.checkNothingRun(t, label)
	}
}

// A file that must not be read declares no tasks, and the list of tasks
// contains no secrets.
func TestToolBusTasksOfFilesThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	s := serveFiles(t, map[string]string{"~/policy.yaml": "reads: {deny: ['package.json']}\n", "package.json": `{"scripts":{"hidden":"true"}}`,
		"Makefile": "## push with ghp_0123456789abcdefghijABCDEFGHIJ012345\nseen:\n\ttrue\n"}, nil, "--read-write")
	for _, got := range s.postBoth(t, "mcp.task.list", map[string]any{}) {
		if strings.Contains(got, "hidden") || strings.Contains(got, "ghp_") || !strings.Contains(got, "make:seen") {
			t.Error(got)
		}
	}
	if got := s.post(t, "mcp.task.run", map[string]any{"name": "npm:hidden"}); !strings.Contains(got, "there is no task") {
		t.Error(got)
	}
}

// rustupProxy stands for rustup's rustfmt: without RUSTUP_TOOLCHAIN it runs the
// toolchain that a file of the workspace names.
const rustupProxy = `#!/bin/sh
if [ -z "$RUSTUP_TOOLCHAIN" ] && [ -f rust-toolchain.toml ]; then exec $(sed -n 's/^path = "\(.*\)"/\1/p' rust-toolchain.toml)/bin/rustfmt; fi
sed 's/  */ /g'
`

// A known formatter runs no program of the workspace. An unknown formatter
// needs a permission.
func TestToolBusFormattersRunNothingOfTheWorkspace(t *testing.T) {
	t.Parallel()
	tools := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(tools, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put("bin/rustfmt", rustupProxy)
	put("bin/prettier", "#!/bin/sh\nexec ./$(cat .prettierrc)\n")
	put("shims/shfmt", "#!/bin/sh\nexec ./$(cat .tool-versions)\n")
	files := map[string]string{
		"evil/bin/rustfmt": evil, "evil/bin/rustc": evil, "a.rs": "fn  a( ) { }\n",
		".prettierrc": "evil/bin/rustfmt", "a.note": "x\n", "b.note2": "x\n", ".tool-versions": "evil/bin/rustfmt", "a.sh": "echo  x\n",
		"~/config.yaml": `{"languages":{"note":{"extensions":[".note"],"formatter":["prettier","--stdin-filepath","{file}"]},"note2":{"extensions":[".note2"],"formatter":["tr","a-z","A-Z"]}}}`,
		"~/policy.yaml": "shell: {allow: ['tr a-z A-Z', 'builtin:read-only']}\n",
	}
	type environment struct{ name, path, rustup string }
	places := []environment{{"a proxy", filepath.Join(tools, "bin") + ":" + filepath.Join(tools, "shims") + ":/usr/bin:/bin", ""}}
	if found, err := exec.LookPath("rustup"); err == nil && exec.Command("rustfmt", "--version").Run() == nil { // the real rustfmt, if one is installed
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, environment{"rustup", filepath.Dir(found) + ":" + filepath.Join(tools, "bin") + ":" + filepath.Join(tools, "shims") + ":/usr/bin:/bin", filepath.Join(home, ".rustup")})
	}
	for _, place := range places {
		s := serveFiles(t, files, []string{"PATH=" + place.path, "RUSTUP_HOME=" + place.rustup}, "--read-write")
		s.executable(t, "evil/bin/rustfmt", "evil/bin/rustc")
		if err := os.WriteFile(filepath.Join(s.dir, "rust-toolchain.toml"), []byte("[toolchain]\npath = \""+s.dir+"/evil\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct{ file, want string }{
			{"a.rs", `"ok":true`}, {"a.note", "mcp.language.formatter was denied"}, {"a.sh", "mcp.language.formatter was denied"}, {"b.note2", `"ok":true`},
		} {
			for _, got := range s.postBoth(t, "mcp.format.apply", map[string]any{"path": tt.file}) {
				if !strings.Contains(got, tt.want) {
					t.Errorf("%s, %s: %s", place.name, tt.file, got)
				}
			}
			s.checkNothingRun(t, place.name+", "+tt.file)
		}
		if text, err := os.ReadFile(filepath.Join(s.dir, "a.rs")); err != nil || strings.Contains(string(text), "fn  a") {
			t.Errorf("%s: %q, %v", place.name, text, err)
		}
	}
}

// gopls works offline. Neither go.mod nor the user's settings make it download
// modules or another Go version, or run programs from git's configuration.
func TestToolBusGoplsFetchesNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		t.Errorf("gopls fetched %s", r.URL)
		http.NotFound(w, r)
	}))
	defer server.Close()
	s := serveFiles(t, map[string]string{
		"~/config.yaml": fmt.Sprintf(`{"languages":{"go":{"command":[%q]}}}`, languagetest.Gopls(t)),
		"go.mod":        "module example.com/m\n\ngo 1.24\n\ntoolchain go1.99.1\n\nrequire example.com/other v1.2.3\n",
		"a.go":          "package main\nimport (\"os\";\"example.com/other\";\"fmt\")\nfunc  main( ) { fmt.Println( other.X) }\n",
		".git/HEAD":     "ref: refs/heads/main\n", ".git/config": "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ./evil\n", ".git/objects/x": "", ".git/refs/x": "", "evil": evil,
	}, []string{"GOPROXY=" + server.URL, "GOPRIVATE=*", "GONOSUMDB=*", "GOFLAGS=-mod=mod", "GOMODCACHE=" + t.TempDir(), "GOTOOLCHAIN=auto", "GOCACHE=" + t.TempDir()}, "--read-write")
	s.executable(t, "evil")
	for method, want := range map[string]string{"mcp.symbols.list": `"name":"main"`, "mcp.format.apply": `"ok":true`, "mcp.imports.organize": `"ok":true`} {
		if got := s.post(t, method, map[string]any{"path": "a.go"}); !strings.Contains(got, want) {
			t.Errorf("%s: %s", method, got)
		}
		s.checkNothingRun(t, method)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("gopls sent %d requests", n)
	}
}

// A permission request for a task shows its variables and its directory.
func TestToolBusQuestionHasTheWholeCommand(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"sub", ".vscode"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tasks := `{"version":"2.0.0","tasks":[{"label":"a","type":"process","command":"ls","options":{"cwd":"sub","env":{"A":"1"}}},
		{"label":"b","type":"shell","command":"ls","options":{"env":{"PATH":"/x"}}}]}`
	if err := os.WriteFile(filepath.Join(dir, ".vscode", "tasks.json"), []byte(tasks), 0o600); err != nil {
		t.Fatal(err)
	}
	x := atTerminalOf(t, home, dir, "serve", "--port", "0", "--demo", "--read-write")
	x.waitFor("copilot-bridge is ready: ")
	waitUntil(t, "the address is shown", func() bool { return printedURL.MatchString(x.screen.String()) })
	s := &served{url: printedURL.FindString(x.screen.String()), home: home, dir: dir, env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}}
	for _, tt := range []struct{ name, question string }{{"vscode:a", "cd " + dir + "/sub && A=1 ls"}, {"vscode:b", "export PATH=/x && ls"}} {
		done := make(chan string, 1)
		go func() {
			out, errs, code := s.call(t, "mcp.task.run", fmt.Sprintf("[%q]", tt.name))
			done <- fmt.Sprintf("exit %d %s%s", code, out, errs)
		}()
		x.waitFor("wants to run: " + tt.question)
		x.typeKeys("n\n")
		if got := <-done; !strings.Contains(got, "exit 4") {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.checkExit(0)
}
