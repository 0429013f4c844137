package registration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/json5"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a user with OpenClaw, but without its command.
type house struct {
	home string
	env  []string
	opts Options
}

// newHouse has a configuration; "" for none.
func newHouse(t *testing.T, config string) *house {
	t.Helper()
	home := t.TempDir()
	h := &house{home: home}
	if err := os.MkdirAll(filepath.Join(home, ".openclaw", "workspace"), 0o700); err != nil {
		t.Fatal(err)
	}
	if config != "" {
		h.write(t, ".openclaw/openclaw.json", config)
	}
	h.opts = Options{Home: filepath.Join(home, ".copilot-bridge"), Executable: filepath.Join(home, "copilot-bridge")}
	return h
}

func (h *house) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(h.home, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// read returns a file, or "(none)".
func (h *house) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.home, filepath.FromSlash(name)))
	if os.IsNotExist(err) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (h *house) config(t *testing.T) string { return h.read(t, ".openclaw/openclaw.json") }

func (h *house) registrar() *Registrar {
	o := h.opts
	o.Environ = append([]string{"HOME=" + h.home}, h.env...)
	o.Places = openclaw.Find(func(name string) string {
		for _, kv := range h.env {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}, h.home, "")
	return New(o)
}

func (h *house) register(t *testing.T, q Request, want Outcome) Result {
	t.Helper()
	r, err := h.registrar().Register(t.Context(), q)
	if err != nil || r.Outcome != want {
		t.Fatalf("%+v, %v; want %s", r, err, want)
	}
	return r
}

func (h *house) unregister(t *testing.T, q Request, want Outcome) Result {
	t.Helper()
	r, err := h.registrar().Unregister(t.Context(), q)
	if err != nil || r.Outcome != want {
		t.Fatalf("%+v, %v; want %s", r, err, want)
	}
	return r
}

// get reads a value of the configuration.
func (h *house) get(t *testing.T, path ...string) string {
	t.Helper()
	d, err := json5.Parse([]byte(h.config(t)))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := d.Get(path...)
	return string(text)
}

// configs are ways to write a configuration.
var configs = map[string]string{
	"none":     "",
	"empty":    "{}",
	"comments": "// mine\n{\n  // agents\n  agents: { defaults: { heartbeat: { every: '0m' } } }, // no beat\n  gateway: {port: 1,},\n}\n",
	"windows":  "{\r\n\t\"gateway\": {\r\n\t\t\"port\": 1\r\n\t}\r\n}\r\n",
	"in use": `{
  "mcp": {"servers": {"docs": {"url": "https://example.com"}}, "apps": {}},
  "plugins": {
    "allow": ["other"],
    "load": {"paths": ["~/other"]},
    "entries": {
      "other": {"enabled": true} // first
    }
  }
}`,
	"disabled":  `{"plugins": {"entries": {"copilot-bridge": {"enabled": false, "hooks": {"allowPromptInjection": false}}}}}`,
	"one line":  `{gateway:{port:1},mcp:{servers:{}},plugins:{}}`,
	"no spaces": "{\"plugins\":{\"load\":{\"paths\":[]},\"entries\":{}},\"mcp\":{\"servers\":{ /* none */ }}}",
}

func TestBackToTheByte(t *testing.T) {
	for name, config := range configs {
		for _, target := range []Target{Plugin, Server} {
			t.Run(name+" "+string(target), func(t *testing.T) {
				h := newHouse(t, config)
				want := h.config(t)
				q := Request{Target: target, Method: Auto, Workspace: h.home, Env: map[string]string{"COPILOT_BRIDGE_HOME": "/x${HOME}"}}
				if r := h.register(t, q, Registered); r.Method != Edit || (r.Backup == "") != (config == "") {
					t.Errorf("%+v", r)
				}
				changed := h.config(t)
				s, err := h.registrar().State()
				if err != nil || target == Plugin && (!s.Plugin.Registered || !s.Plugin.Enabled || !s.Plugin.Current || s.Plugin.Workspace != h.home) ||
					target == Server && (!s.Server.Registered || s.Server.Workspace != h.home) {
					t.Errorf("%+v, %v\n%s", s, err, changed)
				}
				if r := h.register(t, q, Already); len(r.Changes) > 0 || h.config(t) != changed {
					t.Errorf("%+v\n%s", r, h.config(t))
				}
				q.Workspace = filepath.Join(h.home, ".openclaw")
				h.register(t, q, Updated)
				if !strings.Contains(h.config(t), `"`+q.Workspace+`"`) || strings.Contains(h.config(t), `"`+h.home+`"`) {
					t.Errorf("%s", h.config(t))
				}
				if dry := h.unregister(t, Request{Target: target, DryRun: true}, Unregistered); len(dry.Changes) == 0 || h.config(t) == want {
					t.Errorf("%+v", dry)
				}
				h.unregister(t, Request{Target: target}, Unregistered)
				if got := h.config(t); got != want {
					t.Errorf("before:\n%q\nafter:\n%q", want, got)
				}
				if left := h.read(t, ".copilot-bridge/openclaw-plugin/index.js"); left != "(none)" {
					t.Error("the plugin's files are left")
				}
				h.unregister(t, Request{Target: target}, Absent)
			})
		}
	}
}

func TestWhatIsWritten(t *testing.T) {
	h := newHouse(t, configs["in use"])
	h.register(t, Request{Target: Plugin, Workspace: "/w"}, Registered)
	h.register(t, Request{Target: Server, Workspace: "/w", Env: map[string]string{"A": "x${HOME}", "COPILOT_GITHUB_TOKEN": Reference("COPILOT_GITHUB_TOKEN")}}, Registered)
	dir := filepath.Join(h.opts.Home, "openclaw-plugin")
	for path, want := range map[string]string{
		"plugins.load.paths":             `["~/other","` + dir + `"]`,
		"plugins.allow":                  `["other","copilot-bridge"]`,
		"plugins.entries.copilot-bridge": `{"enabled":true,"config":{"binary":"` + h.opts.Executable + `","workspace":"/w"}}`,
		"mcp.servers.copilot": `{"command":"` + h.opts.Executable + `","args":["mcp","copilot","--workspace","/w"],"cwd":"/w",` +
			`"env":{"A":"x$${HOME}","COPILOT_GITHUB_TOKEN":"${COPILOT_GITHUB_TOKEN}"},"requestTimeoutMs":1800000}`,
	} {
		if got := h.get(t, strings.Split(path, ".")...); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	// The one goes without the other.
	h.unregister(t, Request{Target: Plugin}, Unregistered)
	if h.get(t, "mcp", "servers", "copilot") == "" || h.get(t, "plugins", "entries", "copilot-bridge") != "" {
		t.Errorf("%s", h.config(t))
	}
	h.unregister(t, Request{Target: Server}, Unregistered)
	if h.config(t) != configs["in use"] {
		t.Errorf("%s", h.config(t))
	}
}

// The plugin's own schema has every setting that is written.
func TestPluginTakesItsSettings(t *testing.T) {
	files, err := New(Options{}).pluginFiles()
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		ID           string
		ConfigSchema struct {
			Properties map[string]any
			Required   []string
		}
	}
	if err := json.Unmarshal(files[manifestFile], &manifest); err != nil || manifest.ID != pluginID || len(manifest.ConfigSchema.Required) > 0 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	var written map[string]any
	if err := json.Unmarshal([]byte(compact(pluginConfig{"a", "b", map[string]string{"c": "d"}})), &written); err != nil {
		t.Fatal(err)
	}
	for name := range written {
		if manifest.ConfigSchema.Properties[name] == nil {
			t.Errorf("the plugin does not know %q", name)
		}
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	h := newHouse(t, configs["comments"])
	for _, target := range []Target{Plugin, Server} {
		r := h.register(t, Request{Target: target, Workspace: "/w", Persona: true, DryRun: true}, Registered)
		var all []string
		for _, c := range r.Changes {
			all = append(all, c.Lines...)
		}
		text := strings.Join(all, "\n")
		if !strings.Contains(text, h.opts.Executable) || !strings.Contains(text, "Coding with Copilot") || !r.DryRun {
			t.Errorf("%+v", r)
		}
	}
	if h.config(t) != configs["comments"] || h.read(t, ".openclaw/workspace/AGENTS.md") != "(none)" {
		t.Error("something was written")
	}
	if entries, err := os.ReadDir(h.opts.Home); err == nil {
		for _, e := range entries {
			if !strings.Contains(e.Name(), ".lock") {
				t.Errorf("%s was made", e.Name())
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		config string
		set    func(*testing.T, *house)
		target Target
		method Method
		code   bridge.Code
		says   string
	}{
		"broken":       {config: "{\n  a: 1,\n  b: oops\n}", code: bridge.CodeInvalid, says: "line 3"},
		"no object":    {config: "[]", code: bridge.CodeInvalid, says: "not an object"},
		"wrong kind":   {config: `{plugins: {load: {paths: "x"}}}`, code: bridge.CodeInvalid, says: "plugins.load.paths is not a list"},
		"twice":        {config: `{plugins: {}, plugins: {}}`, code: bridge.CodeInvalid, says: "twice"},
		"included":     {config: `{plugins: {$include: "./p.json5"}}`, code: bridge.CodeUnsupported, says: "plugins.$include"},
		"all included": {config: `{$include: ["./a.json5"]}`, target: Server, code: bridge.CodeUnsupported, says: "$include"},
		"foreign":      {config: `{mcp: {servers: {copilot: {command: "npx", args: ["x"]}}}}`, target: Server, code: bridge.CodeConflict, says: "not this program"},
		"no command":   {config: `{}`, method: Command, code: bridge.CodeNotFound, says: "PATH"},
		"nix":          {config: `{}`, set: func(_ *testing.T, h *house) { h.env = append(h.env, "OPENCLAW_NIX_MODE=1") }, code: bridge.CodeConflict, says: "OPENCLAW_NIX_MODE"},
		"newer record": {config: `{}`, set: func(t *testing.T, h *house) {
			h.write(t, ".copilot-bridge/openclaw-registration.json", `{"version":2}`)
		}, code: bridge.CodeConflict, says: "version 2"},
		"broken record": {config: `{}`, set: func(t *testing.T, h *house) { h.write(t, ".copilot-bridge/openclaw-registration.json", `{`) }, code: bridge.CodeConflict, says: "openclaw-registration.json"},
		"read-only": {config: `{}`, set: func(t *testing.T, h *house) {
			if err := os.Chmod(filepath.Join(h.home, ".openclaw", "openclaw.json"), 0o400); err != nil {
				t.Fatal(err)
			}
		}, code: bridge.CodeConflict, says: "read-only"},
		"dangling link": {set: func(t *testing.T, h *house) {
			if err := os.Symlink("nowhere", filepath.Join(h.home, ".openclaw", "openclaw.json")); err != nil {
				t.Fatal(err)
			}
		}, code: bridge.CodeInvalid, says: "leads nowhere"},
		"absent": {set: func(t *testing.T, h *house) {
			if err := os.RemoveAll(filepath.Join(h.home, ".openclaw")); err != nil {
				t.Fatal(err)
			}
		}, code: bridge.CodeNotFound, says: "OpenClaw was not found"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, tt.config)
			if tt.set != nil {
				tt.set(t, h)
			}
			if tt.target == "" {
				tt.target = Plugin
			}
			_, err := h.registrar().Register(t.Context(), Request{Target: tt.target, Method: tt.method, Workspace: "/w"})
			e := bridge.AsError(err)
			if e == nil || e.Code != tt.code || !strings.Contains(err.Error(), tt.says) || e.Remedy == "" {
				t.Errorf("%v (%s)", err, bridge.CodeOf(err))
			}
			if tt.config != "" && h.config(t) != tt.config {
				t.Errorf("it became %s", h.config(t))
			}
		})
	}
}

func TestForceIsTakenBack(t *testing.T) {
	config := "{mcp: {servers: {copilot: {command: 'npx', args: ['x']}, /* two */ b: {url: 'y'}}}}"
	h := newHouse(t, config)
	if r := h.unregister(t, Request{Target: Server}, Absent); len(r.Notes) != 1 || h.config(t) != config {
		t.Errorf("%+v", r)
	}
	h.register(t, Request{Target: Server, Workspace: "/w", Force: true}, Registered)
	h.register(t, Request{Target: Server, Workspace: "/v"}, Updated)
	h.unregister(t, Request{Target: Server}, Unregistered)
	if h.config(t) != config {
		t.Errorf("%s", h.config(t))
	}
}

// A registration made by hand, or whose record is lost, counts as ours.
func TestWithoutRecord(t *testing.T) {
	for _, again := range []bool{false, true} {
		h := newHouse(t, "{\n  gateway: {port: 1}, // x\n}\n")
		want := h.config(t)
		for _, target := range []Target{Plugin, Server} {
			h.register(t, Request{Target: target, Workspace: "/w"}, Registered)
		}
		if err := os.Remove(filepath.Join(h.opts.Home, "openclaw-registration.json")); err != nil {
			t.Fatal(err)
		}
		if again {
			h.register(t, Request{Target: Plugin, Workspace: "/v"}, Registered)
			h.register(t, Request{Target: Server, Workspace: "/w"}, Already)
		}
		for _, target := range []Target{Plugin, Server} {
			h.unregister(t, Request{Target: target}, Unregistered)
		}
		if h.config(t) != want {
			t.Errorf("%v: %s", again, h.config(t))
		}
	}
}

func TestLinkAndModeStay(t *testing.T) {
	h := newHouse(t, "")
	h.write(t, "dotfiles/claw.json5", "{ // x\n}")
	link := filepath.Join(h.home, ".openclaw", "openclaw.json")
	if err := os.Symlink(filepath.Join("..", "dotfiles", "claw.json5"), link); err != nil {
		t.Fatal(err)
	}
	h.register(t, Request{Target: Server, Workspace: "/w"}, Registered)
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link has gone: %v, %v", info, err)
	}
	info, err = os.Stat(link)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 || !strings.Contains(h.read(t, "dotfiles/claw.json5"), "mcp") {
		t.Errorf("%v, %v", info, err)
	}
	h.unregister(t, Request{Target: Server}, Unregistered)
	if got := h.read(t, "dotfiles/claw.json5"); got != "{ // x\n}" {
		t.Errorf("%q", got)
	}
}

func TestBackups(t *testing.T) {
	h := newHouse(t, configs["comments"])
	r := h.register(t, Request{Target: Server, Workspace: "/w"}, Registered)
	kept, err := os.ReadFile(r.Backup)
	if err != nil || string(kept) != configs["comments"] {
		t.Errorf("%q, %v", kept, err)
	}
	for i := range 15 {
		h.register(t, Request{Target: Server, Workspace: "/w" + strings.Repeat("x", i+1)}, Updated)
	}
	if all, err := os.ReadDir(filepath.Dir(r.Backup)); err != nil || len(all) != maxBackups {
		t.Errorf("%d, %v", len(all), err)
	}
}

func TestPluginIsBroughtUpToDate(t *testing.T) {
	h := newHouse(t, "{}")
	h.opts.Files = fstest.MapFS{manifestFile: {Data: []byte("{}")}, "index.js": {Data: []byte("old")}, "gone.js": {Data: []byte("x")}}
	h.register(t, Request{Target: Plugin}, Registered)
	h.opts.Files = fstest.MapFS{manifestFile: {Data: []byte("{}")}, "index.js": {Data: []byte("new")}}
	if s, err := h.registrar().State(); err != nil || s.Plugin.Current || !s.Plugin.Registered || !s.Plugin.Missing {
		t.Errorf("%+v, %v", s, err)
	}
	if r := h.register(t, Request{Target: Plugin}, Updated); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "reload") {
		t.Errorf("%+v", r)
	}
	if h.read(t, ".copilot-bridge/openclaw-plugin/index.js") != "new" || h.read(t, ".copilot-bridge/openclaw-plugin/gone.js") != "(none)" {
		t.Error("the files are old")
	}
	if s, err := h.registrar().State(); err != nil || !s.Plugin.Current {
		t.Errorf("%+v, %v", s, err)
	}
}

// plugins.allow is not touched unless we have added to it: an empty
// one would allow everything.
func TestAllowedBySomebodyElse(t *testing.T) {
	config := `{plugins: {allow: ["copilot-bridge"]}}`
	h := newHouse(t, config)
	for _, lost := range []bool{false, true} {
		h.register(t, Request{Target: Plugin}, Registered)
		if lost {
			if err := os.Remove(filepath.Join(h.opts.Home, "openclaw-registration.json")); err != nil {
				t.Fatal(err)
			}
		}
		h.unregister(t, Request{Target: Plugin}, Unregistered)
		if h.config(t) != config {
			t.Errorf("%s", h.config(t))
		}
	}
}

// Unregistering works after OpenClaw was removed.
func TestUnregisterWithoutOpenClaw(t *testing.T) {
	h := newHouse(t, "{}")
	h.register(t, Request{Target: Plugin}, Registered)
	if err := os.RemoveAll(filepath.Join(h.home, ".openclaw")); err != nil {
		t.Fatal(err)
	}
	h.unregister(t, Request{Target: Plugin}, Unregistered)
	if h.read(t, ".copilot-bridge/openclaw-plugin/index.js") != "(none)" || h.config(t) != "(none)" {
		t.Error("something is left")
	}
	h.unregister(t, Request{Target: Plugin}, Absent)
}

// Unless another program has changed the configuration, undoing gives back its
// very bytes: comments, quotes, order, blanks and all.
func TestUnregisterGivesBackTheBytes(t *testing.T) {
	for _, config := range []string{"{}", "// mine\n{ 'a' : [1, 2,], // kept\n\tplugins: {  },\n  mcp:{servers:{ x: {command:\"x\"} } } ,\n}\n", "{\r\n  \"b\": 0x10\r\n}"} {
		h := newHouse(t, config)
		h.register(t, Request{Target: Plugin}, Registered)
		h.register(t, Request{Target: Server}, Registered)
		if h.config(t) == config {
			t.Fatal("nothing was registered")
		}
		h.unregister(t, Request{Target: Server}, Unregistered)
		h.unregister(t, Request{Target: Plugin}, Unregistered)
		if got := h.config(t); got != config {
			t.Errorf("%q became %q", config, got)
		}
	}
}

func TestSwitchedOff(t *testing.T) {
	for config, note := range map[string]string{`{plugins: {enabled: false}}`: "plugins.enabled", `{plugins: {deny: ["copilot-bridge"]}}`: "plugins.deny"} {
		h := newHouse(t, config)
		if r := h.register(t, Request{Target: Plugin}, Registered); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], note) {
			t.Errorf("%+v", r)
		}
		if s, err := h.registrar().State(); err != nil || s.Plugin.Enabled {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// Another program's change between reading and writing is not overwritten.
func TestSomebodyElseWrites(t *testing.T) {
	h := newHouse(t, "{}")
	r := h.registrar()
	s, err := r.readSettings()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.doc.Set(1, "a"); err != nil {
		t.Fatal(err)
	}
	h.write(t, ".openclaw/openclaw.json", `{"b": 2}`)
	if _, err := r.save(s); bridge.CodeOf(err) != bridge.CodeConflict || !bytes.Contains([]byte(h.config(t)), []byte(`"b"`)) {
		t.Errorf("%v, %s", err, h.config(t))
	}
}
