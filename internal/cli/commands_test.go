package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct {
		args   string
		stderr string // all of these lines
	}{
		{"runn", "there is no command \"copilot-bridge runn\"|did you mean `copilot-bridge run`?"},
		{"runn --cwd x", "there is no command \"copilot-bridge runn\""},
		{"sessions lst", "there is no command \"copilot-bridge sessions lst\"|did you mean `copilot-bridge sessions list`?"},
		{"frobnicate", "there is no command|see `copilot-bridge --help`"},
		{"run", "`copilot-bridge run` accepts a task; got 0 arguments|see `copilot-bridge run --help`"},
		{"run x --mdoel y", "unknown flag: --mdoel|did you mean --model?"},
		{"run x --zzzzzz", "unknown flag: --zzzzzz|see `copilot-bridge run --help`"},
		{"run x --timeout soon", `--timeout="soon": must be a duration|on the command line`},
		{"run x --reasoning-effort hard", `--reasoning-effort="hard": must be one of low, medium`},
		{"run x --log-level loud", `--log-level="loud": must be one of debug`},
		{"run x --cwd nonesuch", "nonesuch does not exist|--cwd"},
		{"run x --cwd file", "file is not a directory"},
		{"run x --attach nonesuch", "cannot attach nonesuch: no such file"},
		{"run -", "the task is empty"},
		{"usage --since soon", "--since=\"soon\": must be a time such as 7d or 12h, or a date such as 2026-01-31|see `copilot-bridge usage --help`"},
		{"usage --by week", `--by="week": must be one of day, model, session, door|see ` + "`copilot-bridge usage --help`"},
		{"sessions delete", "give the ids"},
		{"sessions delete --all x", "not both"},
		{"sessions resume abcd", "without a terminal a prompt is needed"},
		{"version extra", "accepts no arguments; got 1 argument"},
		{"completion nonesuch", "there is no command \"copilot-bridge completion nonesuch\""},
		{"help nonesuch", "there is no command \"copilot-bridge nonesuch\""},
		{"help sessions nonesuch", "there is no command \"copilot-bridge sessions nonesuch\""},
	} {
		w := newWorld(t)
		if err := os.WriteFile(filepath.Join(w.Dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		code := w.run(strings.Fields(tt.args)...)
		if code != 2 {
			t.Errorf("%s: exit %d", tt.args, code)
		}
		for want := range strings.SplitSeq(tt.stderr, "|") {
			if !strings.Contains(w.err.String(), want) {
				t.Errorf("%s: stderr lacks %q:\n%s", tt.args, want, w.err)
			}
		}
	}
}

func TestEmptyTask(t *testing.T) {
	w := newWorld(t)
	if code := w.run("run", " \n"); code != 2 || !strings.Contains(w.err.String(), "the task is empty") {
		t.Errorf("exit %d, stderr %q", code, w.err)
	}
}

func TestUnknownSessions(t *testing.T) {
	for _, args := range [][]string{{"sessions", "show", "abcd"}, {"sessions", "delete", "abcd"}, {"sessions", "resume", "abcd", "hi"}, {"run", "hi", "--resume", "abcd"}} {
		w := newWorld(t)
		if code := w.run(args...); code != 1 || !strings.Contains(w.err.String(), "→ ") {
			t.Errorf("%v: exit %d, stderr %q", args, code, w.err)
		}
	}
}

// Every command can be understood without the manual.
func TestEveryCommandHasHelp(t *testing.T) {
	w := newWorld(t)
	w.Args = []string{"copilot-bridge"}
	p, stop := newProgram(w.Env, func(error) {})
	defer stop()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.HasParent() && c.Parent().Name() == "completion" {
			return // cobra's own, which explain themselves
		}
		if c.Short == "" || c.Example == "" || !strings.Contains(c.Example, "copilot-bridge") {
			t.Errorf("%s has no example or no description", c.CommandPath())
		}
		if c.Args == nil && c.Name() != "delete" {
			t.Errorf("%s takes any arguments", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(p.root())
	for _, args := range []string{"", "--help", "help", "help run", "help sessions list", "run --help", "sessions", "config", "completion"} {
		w := newWorld(t)
		if code := w.run(strings.Fields(args)...); code != 0 || !strings.Contains(w.out.String(), "Usage:") || w.err.String() != "" {
			t.Errorf("%q: exit %d\n%s\n%s", args, code, w.out, w.err)
		}
	}
}

func TestVersion(t *testing.T) {
	w := newWorld(t)
	if code := w.run("version"); code != 0 || !strings.HasPrefix(w.out.String(), "copilot-bridge ") || !strings.Contains(w.out.String(), copilotruntime.RuntimeVersion) {
		t.Errorf("exit %d: %s", code, w.out)
	}
	w = newWorld(t)
	w.run("version", "--json")
	var v versionInfo
	if err := json.Unmarshal([]byte(w.out.String()), &v); err != nil || v.Version == "" || v.Runtime != copilotruntime.RuntimeVersion || v.CLI != copilotruntime.CLIVersion {
		t.Errorf("%v: %s", err, w.out)
	}
}

func TestConfigShow(t *testing.T) {
	w := newWorld(t)
	w.Environ = append(w.Environ, "COPILOT_MAX_RETRIES=7", "COPILOT_GITHUB_TOKEN=ghp_0123456789")
	if code := w.run("config", "show"); code != 0 {
		t.Fatalf("exit %d: %s", code, w.err)
	}
	for _, want := range []string{"KEY", "max_retries", "7", "environment", "COPILOT_MAX_RETRIES", "••••••"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, w.out)
		}
	}
	w.out = &buffer{}
	w.Stdout = w.out
	w.run("config", "show", "--json")
	var all []map[string]any
	if err := json.Unmarshal([]byte(w.out.String()), &all); err != nil || len(all) < 30 {
		t.Errorf("%v: %s", err, w.out)
	}
}

func TestConfigPath(t *testing.T) {
	for _, tt := range []struct{ env, want string }{
		{"", "HOME/.copilot-bridge/config.yaml"},
		{"COPILOT_BRIDGE_HOME=/x", "/x/config.yaml"},
		{"COPILOT_BRIDGE_HOME=~/x", "HOME/x/config.yaml"},
		{"COPILOT_BRIDGE_HOME=rel", "DIR/rel/config.yaml"},
	} {
		for _, broken := range []bool{false, true} {
			w := newWorld(t)
			w.Environ = append(w.Environ, tt.env)
			if broken {
				w.Environ = append(w.Environ, "COPILOT_MAX_RETRIES=x")
			}
			want := strings.NewReplacer("HOME", w.home, "DIR", w.Dir).Replace(tt.want) + "\n"
			if code := w.run("config", "path"); code != 0 || w.out.String() != want {
				t.Errorf("%s: exit %d, got %q, want %q (%s)", tt.env, code, w.out, want, w.err)
			}
		}
	}
}

// store fills the list of sessions.
func (w *world) store(t *testing.T, entries ...sessionstore.Entry) {
	t.Helper()
	for _, e := range entries {
		e.Agent, e.Profile, e.State = "sdk", sessionstore.ProfileAgent, sessionstore.StateClosed
		if err := sessionstore.Open(filepath.Join(w.home, ".copilot-bridge", "sessions")).Put(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSessionsList(t *testing.T) {
	w := newWorld(t)
	if code := w.run("sessions", "list"); code != 0 || w.out.String() != "" || !strings.Contains(w.err.String(), "no sessions yet") {
		t.Errorf("exit %d, %s, %s", code, w.out, w.err)
	}
	now := time.Now()
	w.store(t, sessionstore.Entry{ID: "aaaaaaaa-1", Title: "first \x1b[31m", Model: "gpt-5", Turns: 2, InputTokens: 30, OutputTokens: 4,
		WorkingDirectory: filepath.Join(w.home, "src"), Updated: now.Add(-3 * time.Hour)},
		sessionstore.Entry{ID: "aaaaaaaa-2", Title: "second", Updated: now.Add(-5 * 24 * time.Hour)})
	w.run("sessions", "list")
	want := "ID          STATE   AGE  MODEL  TURNS  TOKENS  DIRECTORY  TITLE\n" +
		"aaaaaaaa-1  closed  3h   gpt-5  2      30/4    ~/src      first \\x1b[31m\n" +
		"aaaaaaaa-2  closed  5d   -      0      0/0     -          second\n"
	if w.out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", w.out, want)
	}
	w.out = &buffer{}
	w.Stdout = w.out
	w.terminals(w.out)
	w.run("sessions", "ls")
	for line := range strings.Lines(w.out.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

func TestCompletion(t *testing.T) {
	w := newWorld(t)
	w.store(t, sessionstore.Entry{ID: "aaaaaaaa-1", Title: "first"}, sessionstore.Entry{ID: "bbbbbbbb-2", Title: "second"})
	for args, want := range map[string][]string{
		"sessions show":          {"aaaaaaaa-1\tfirst", "bbbbbbbb-2\tsecond"},
		"run --resume":           {"aaaaaaaa-1\tfirst"},
		"run --log-level":        {"warning", "none"},
		"run --reasoning-effort": {"xhigh"},
		"":                       {"run\t", "validate\t", "setup\t", "sessions\t"},
	} {
		w.out = &buffer{}
		w.Stdout = w.out
		if code := w.run(append(append([]string{"__complete"}, strings.Fields(args)...), "")...); code != 0 {
			t.Errorf("%s: exit %d", args, code)
		}
		for _, s := range want {
			if !strings.Contains("\n"+w.out.String(), "\n"+s) {
				t.Errorf("%s: %q is missing in\n%s", args, s, w.out)
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		w.out = &buffer{}
		w.Stdout = w.out
		if code := w.run("completion", shell); code != 0 || !strings.Contains(w.out.String(), "copilot-bridge") {
			t.Errorf("%s: exit %d", shell, code)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for _, tt := range []struct {
		args, env string
		info, err bool
	}{
		{"", "", false, true},
		{"", "COPILOT_LOG_LEVEL=info", true, true},
		{"", "COPILOT_LOG_LEVEL=none", false, false},
		{"error", "COPILOT_LOG_LEVEL=all", false, true},
		{"debug", "", true, true},
	} {
		w := newWorld(t)
		w.Environ = append(w.Environ, tt.env)
		p, stop := newProgram(w.Env, func(error) {})
		root := p.root()
		if tt.args != "" {
			if err := root.ParseFlags([]string{"--log-level", tt.args}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.load(root); err != nil {
			t.Fatal(err)
		}
		p.log.Info("chatter")
		p.log.Error("trouble")
		stop()
		if got := w.err.String(); strings.Contains(got, "chatter") != tt.info || strings.Contains(got, "trouble") != tt.err {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// A log from before there were witnesses is whole, and that is said of it.
func TestAuditVerifyWithoutWitness(t *testing.T) {
	w := newWorld(t)
	log, err := audit.Open(filepath.Join(w.home, ".copilot-bridge", "audit"), audit.Options{Redact: func(v any) any { return v }})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Append(t.Context(), audit.Entry{Hook: audit.HookStart}), log.Close()); err != nil {
		t.Fatal(err)
	}
	if code := w.run("audit", "verify"); code != 0 || !strings.Contains(w.out.String(), "✓ 1 entry is whole") || !strings.Contains(w.out.String(), "nothing outside the log witnesses where it ends") {
		t.Errorf("exit %d\n%s%s", code, w.out, w.err)
	}
}

// Old segments are deleted when that is asked for, and moved ones are verified
// by themselves.
func TestAuditPrune(t *testing.T) {
	w := newWorld(t)
	dir, archive := filepath.Join(w.home, ".copilot-bridge", "audit"), t.TempDir()
	old := os.DirFS(filepath.Join("..", "guard", "audit", "testdata", "before-segments"))
	if err := errors.Join(os.CopyFS(dir, old), os.CopyFS(archive, old)); err != nil {
		t.Fatal(err)
	}
	says := func(want int, text string, args ...string) {
		t.Helper()
		*w.out, *w.err = buffer{}, buffer{}
		if code := w.run(append([]string{"audit"}, args...)...); code != want || !strings.Contains(w.out.String()+w.err.String(), text) {
			t.Errorf("%q: exit %d, without %q\n%s%s", args, code, text, w.out, w.err)
		}
	}
	for _, age := range []string{"", "x", "d", "-1h", "-1d"} {
		says(2, "--older-than takes an age", "prune", "--older-than", age)
	}
	says(0, "No closed segment of the audit log is that old.", "prune", "--older-than", "30d")
	log, err := audit.Open(dir, audit.Options{Redact: func(v any) any { return v }})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Append(t.Context(), audit.Entry{Hook: audit.HookStart}), log.Close()); err != nil {
		t.Fatal(err)
	}
	says(0, "3 segments would be deleted: entries 1 to 18, the last of 2026-03-03", "prune", "--older-than", "30d", "--dry-run")
	says(0, "✓ 19 entries are whole", "verify")
	says(0, "3 segments deleted", "prune", "--older-than", "720h")
	says(0, "✓ 2 entries are whole", "verify")
	says(0, "entries 1 to 18 are no longer here: entry 19 in ", "verify")
	says(0, "entry 20 records that they were deleted", "verify")
	says(0, `"gone":{"file":"audit-2026-03-03.jsonl"`, "verify", "--json")
	says(0, "entries 1 to 18, from before ", "tail")
	last := filepath.Join(archive, "audit-2026-03-03.jsonl")
	says(0, "closed by the summary in entry 19 in "+dir, "verify", last)
	says(0, "nothing here proves where it ends", "verify", filepath.Join(archive, "audit-2026-03-01.jsonl"))
	says(2, "cannot read ", "verify", filepath.Join(archive, "none.jsonl"))
	text, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(last, bytes.Replace(text, []byte("allow"), []byte("deny "), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	says(1, "entry 13 was changed", "verify", last)
}
