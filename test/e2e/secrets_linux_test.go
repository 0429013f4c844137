package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// A token in the form of real ones, placed where a title is cut, and a password
// that only its name tells.
const (
	tokenSecret    = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	passwordSecret = "horsebattery"
)

func keyText(t *testing.T, kind string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// filesContaining returns the files below a directory that contain a text.
func filesContaining(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) || strings.Contains(path, text) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A client of the tool bus requests some lines of a file and search hits in it.
func TestPartsOfFilesOnTheBus(t *testing.T) {
	t.Parallel()
	key, cert := keyText(t, "RSA PRIVATE KEY"), keyText(t, "CERTIFICATE")
	lines, shown := strings.Split(strings.TrimSpace(key), "\n"), strings.Split(cert, "\n")
	mixed := "package x\n\nconst key = `" + key + "`\n\nvar after = 1\n"
	wide := []byte{0xFF, 0xFE}
	for _, unit := range utf16.Encode([]rune(key)) {
		wide = append(wide, byte(unit), byte(unit>>8))
	}
	s := serveFiles(t, map[string]string{"server.key": key, "server.crt": cert, "wide.key": string(wide), "notes.py": "# " + strings.ReplaceAll(key, "\n", "\n# "), "key.go": mixed, "old.key": strings.ReplaceAll(key, "\n", "\r\n"),
		"deploy.yaml": "env:\n  - name: DB_PASSWORD\n    value: " + passwordSecret + "\n"}, nil)
	w, _ := s.dial(t, nil)
	id := 0
	call := func(method string, params any) string {
		t.Helper()
		id++
		data, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":%q,"params":%s}`, id, method, data))
		return w.waitForMessage(fmt.Sprintf(`"id":"c%d"`, id))
	}
	type m = map[string]any
	var answers []string
	for _, part := range []m{{"path": "server.key", "offset": 2}, {"path": "server.key", "offset": 2, "limit": 3}, {"path": "server.key", "offset": 9, "limit": 1}, {"path": "server.key", "limit": 4},
		{"path": "old.key", "offset": 5, "limit": 1}, {"path": "key.go", "offset": 7, "limit": 2}, {"path": "deploy.yaml", "offset": 3, "limit": 1},
		{"path": "server.key", "offset": len(lines) - 1, "limit": 1}, {"path": "notes.py", "offset": 7, "limit": 1}} {
		answers = append(answers, call("mcp.fs.read", part))
	}
	for _, found := range []m{{"query": lines[6][:24]}, {"query": lines[6][:24], "context": 2}} {
		answers = append(answers, call("mcp.search.code", found))
	}
	for _, a := range answers {
		if !strings.Contains(a, "[REDACTED]") || strings.Contains(a, passwordSecret) {
			t.Errorf("got %s", a)
		}
		for _, l := range lines[1 : len(lines)-1] {
			if strings.Contains(a, l) {
				t.Errorf("a line of the key is in %s", a)
			}
		}
	}
	if got := call("mcp.fs.read", m{"path": "server.crt", "offset": 3, "limit": 2}); !strings.Contains(got, shown[2]+`\n`+shown[3]) {
		t.Errorf("a part of a certificate: %s", got)
	}
	if got := call("mcp.fs.read", m{"path": "key.go", "offset": len(strings.Split(mixed, "\n")) - 1, "limit": 1}); !strings.Contains(got, `"content":"var after = 1\n"`) {
		t.Errorf("the line after a key: %s", got)
	}
}

// A client disconnects while the server redacts its answer.
func TestRedactionEndsWithItsClient(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("AccountKey=pwd=", 130) + "\n"
	s := serveFiles(t, map[string]string{"large.txt": strings.Repeat(line, 5000)}, nil)
	record := filepath.Join(s.home, ".copilot-bridge", "audit")
	// entries counts the audit entries that contain a text.
	entries := func(text string) (n int) {
		for _, name := range filesContaining(t, record, text) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			n += bytes.Count(data, []byte(text))
		}
		return n
	}
	// A client that leaves before the redaction starts proves nothing, so each
	// one stays a quarter longer than the one before: when the redaction starts
	// and how long it takes depends on the machine.
	stay := 5 * time.Millisecond
	for begun := range 30 {
		w, _ := s.dial(t, nil)
		w.send(`{"jsonrpc":"2.0","id":1,"method":"mcp.fs.read","params":{"path":"large.txt","offset":4200,"limit":1}}`)
		waitUntil(t, "the call is on record", func() bool { return entries(`"hook":"pre_tool`) > begun })
		<-time.After(stay)
		stay += stay / 4
		if err := w.ws.CloseNow(); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "the call has ended", func() bool { return entries(`"hook":"post_tool`)+entries(`"hook":"tool_failure`) > begun })
		if entries("the result is withheld: the call was cancelled") > 0 {
			return
		}
	}
	t.Error("no audit entry says that a redaction was cancelled")
}

// Titles and other stored data of a session come from the redacted text that
// the model got.
func TestTitlesHoldNoSecrets(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	bridge := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t)}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	filler := "please look at the log of the last release and then push with the token "
	printed := ""
	for _, prompt := range []string{
		"use " + tokenSecret + " to list the files",
		filler[:46] + " " + tokenSecret + " and list the files", // the title is cut within the token
		"list the files\nDB_PASSWORD=" + passwordSecret,
		"DB_PASSWORD=" + passwordSecret + " list the files",
	} {
		printed += bridge("run", "--demo", prompt, "--json")
	}
	listed := bridge("sessions", "list") + bridge("sessions", "list", "--json") + bridge("__complete", "sessions", "show", "")
	for _, secret := range []string{tokenSecret[:18], passwordSecret} {
		if strings.Contains(printed+listed, secret) {
			t.Errorf("%s is shown in\n%s\n%s", secret, printed, listed)
		}
		if names := filesContaining(t, filepath.Join(home, ".copilot-bridge"), secret); len(names) > 0 {
			t.Errorf("%s is kept in %v", secret, names)
		}
	}
	if !strings.Contains(listed, "[REDACTED]") {
		t.Errorf("the titles are\n%s", listed)
	}
}

// An orchestration stores its task, its plan and its results without secrets.
func TestOrchestrationsHoldNoSecrets(t *testing.T) {
	s := newRepoBench(t)
	s.write("settings.env", "DB_PASSWORD="+passwordSecret+"\n")
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "settings")
	parts := []orchestrate.SubTask{
		part("first", orchestrate.Small, tool("view", map[string]string{"path": "settings.env"}), tool("create", map[string]string{"path": "a.txt", "file_text": "a\n"})),
		part("second", orchestrate.Small, tool("view", map[string]string{"path": "nonesuch-" + tokenSecret})),
	}
	parts[0].Description += "\nlog in with " + tokenSecret
	r, _, _ := s.run("deploy with "+tokenSecret+" and DB_PASSWORD="+passwordSecret, "--plan", s.plan(orchestrate.TaskPlan{Tasks: parts}), "--yes")
	if len(r.Tasks) != 2 {
		t.Fatalf("%+v", r)
	}
	home := filepath.Join(s.home, "bridge")
	for _, secret := range []string{tokenSecret[:18], passwordSecret} {
		// The runtime writes its own store; see docs/guides/security.md.
		names := slices.DeleteFunc(filesContaining(t, home, secret), func(n string) bool { return strings.HasPrefix(n, filepath.Join(home, "copilot")+"/") })
		if len(names) > 0 {
			t.Errorf("%s is kept in %v", secret, names)
		}
		if out, err := json.Marshal(r); err != nil || strings.Contains(string(out), secret) {
			t.Errorf("%s is in the result %s %v", secret, out, err)
		}
	}
	for _, name := range []string{"run.json", "plan.json", "events.jsonl"} {
		data, err := os.ReadFile(filepath.Join(orchestrate.RunsDir(home), r.Run, name))
		if err != nil || !bytes.Contains(data, []byte("[REDACTED]")) {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
	}
}
