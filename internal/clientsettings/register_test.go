package clientsettings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

var anyBridge = Bridge{URL: "http://127.0.0.1:8788", Program: "/bin/copilot-bridge", Model: "gpt-5"}

// place is a registrar with a home of its own.
func place(t *testing.T) Registrar {
	t.Helper()
	home := t.TempDir()
	return Registrar{Record: filepath.Join(home, "clients.json"), Places: Places{Home: home, Env: func(string) string { return "" }}}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// befores are settings that people have, by client; "" is for none.
func befores(c Client) []string {
	if c.codex != nil {
		return []string{"", "model = \"o3\"\napproval_policy = \"never\"\n\n[model_providers.mine]\nmodel = 1", "# mine\n"}
	}
	return []string{"", "{}", "{\n\t\"env\": {\"A\": \"b\"},\n\t\"model\": \"x\"\n}", "{ \"mcpServers\": { \"other\": {} } }\n", "{\n  // mine\n  \"agent_servers\": {},\n}\n"}
}

// Every client's file becomes what it was, byte for byte, and its record goes.
func TestExactly(t *testing.T) {
	for _, c := range Clients() {
		for _, before := range befores(c) {
			r := place(t)
			path := c.file(r.Places)
			if before != "" {
				write(t, path, before)
			}
			dry, err := r.Register(t.Context(), c, anyBridge, true)
			if err != nil || dry.Outcome != Registered || len(dry.Lines) == 0 {
				t.Fatalf("%s %q: %+v, %v", c.Name, before, dry, err)
			}
			if now, err := os.ReadFile(path); string(now) != before || before == "" && !os.IsNotExist(err) {
				t.Errorf("%s: --dry-run wrote %q", c.Name, now)
			}
			for i, want := range []Outcome{Registered, Already} {
				got, err := r.Register(t.Context(), c, anyBridge, false)
				if err != nil || got.Outcome != want {
					t.Fatalf("%s %q: %d: %+v, %v", c.Name, before, i, got, err)
				}
			}
			if now := read(t, path); !strings.Contains(now, "8788") && !strings.Contains(now, "/bin/copilot-bridge") {
				t.Errorf("%s: %s", c.Name, now)
			} else if c.codex == nil && !strings.Contains(before, "//") && !json.Valid([]byte(now)) {
				t.Errorf("%s: no JSON:\n%s", c.Name, now)
			}
			other := anyBridge
			other.URL, other.Program, other.Token = "http://127.0.0.1:9", "/usr/bin/copilot-bridge", true
			if got, err := r.Register(t.Context(), c, other, false); err != nil || got.Outcome != Registered || strings.Contains(read(t, path), "8788") {
				t.Errorf("%s: another address: %+v, %v\n%s", c.Name, got, err, read(t, path))
			}
			if got, err := r.Unregister(t.Context(), c, false); err != nil || got.Outcome != Unregistered {
				t.Errorf("%s: %+v, %v", c.Name, got, err)
			}
			if now, err := os.ReadFile(path); string(now) != before || before == "" && !os.IsNotExist(err) {
				t.Errorf("%s: it became %q, was %q", c.Name, now, before)
			}
			if _, err := os.Stat(r.Record); !os.IsNotExist(err) {
				t.Errorf("%s: a record is left: %v", c.Name, err)
			}
			if got, err := r.Unregister(t.Context(), c, false); err != nil || got.Outcome != Absent {
				t.Errorf("%s: again: %+v, %v", c.Name, got, err)
			}
		}
	}
}

// What the person has changed since stays.
func TestChangedSince(t *testing.T) {
	edits := map[string][3]string{ // before, an edit of what was written, after
		"claude-code": {"{\"env\": {\"A\": \"1\"}}\n", `"A": "1"|"A": "2"`, "{\"env\": {\"A\": \"2\"}}\n"},
		"codex":       {"model = \"o3\"\n[a]\nb = 1\n", "b = 1|b = 2", "model = \"o3\"\n[a]\nb = 2\n"},
		"cursor":      {"{\"mcpServers\": {}}\n", `"mcp"|"mcp", "--read-write"`, ""}, // changed by the person: theirs now
	}
	for _, c := range Clients() {
		edit, ok := edits[c.Name]
		if !ok {
			continue
		}
		r := place(t)
		path := c.file(r.Places)
		write(t, path, edit[0])
		if _, err := r.Register(t.Context(), c, anyBridge, false); err != nil {
			t.Fatal(err)
		}
		from, to, _ := strings.Cut(edit[1], "|")
		changed := strings.Replace(read(t, path), from, to, 1)
		write(t, path, changed)
		if edit[2] == "" {
			edit[2] = changed
		}
		if _, err := r.Unregister(t.Context(), c, false); err != nil {
			t.Fatal(err)
		}
		if now := read(t, path); now != edit[2] {
			t.Errorf("%s: %q, want %q", c.Name, now, edit[2])
		}
	}
}

func TestBrokenSettings(t *testing.T) {
	for _, broken := range []string{"{", `{"env": 1}`} {
		r := place(t)
		c := Clients()[0]
		path := c.file(r.Places)
		write(t, path, broken)
		_, err := r.Register(t.Context(), c, anyBridge, false)
		if e := bridge.AsError(err); e.Code != bridge.CodeConflict || e.Message != path+" cannot be changed" || e.Remedy != "correct the file and try again; it was left as it is" || read(t, path) != broken {
			t.Errorf("%q: %+v", broken, e)
		}
	}
	r := place(t)
	write(t, r.Record, "x")
	_, err := r.Unregister(t.Context(), Clients()[0], false)
	if e := bridge.AsError(err); e.Message != "the record of what was registered, "+r.Record+", cannot be read" || e.Remedy != "delete it, and take the bridge out of the clients' settings by hand" {
		t.Errorf("a broken record: %+v", e)
	}
}
