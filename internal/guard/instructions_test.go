//go:build unix

package guard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// instructed makes a workspace inside a new directory, has plant fill
// it, and returns what a session in dir is told, and the record of it.
func instructed(t *testing.T, rules, dir string, plant func(ws string, write func(path, text string))) (text, record string) {
	t.Helper()
	base := t.TempDir()
	ws := filepath.Join(base, "ws")
	write := func(path, text string) {
		t.Helper()
		if !filepath.IsAbs(path) {
			path = filepath.Join(ws, path)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("README.md", "x")
	plant(ws, write)
	place, err := paths.New(ws)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := place.Close(); err != nil {
			t.Error(err)
		}
	}()
	layer, err := policy.ParseYAML("p", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	d := policy.DefaultsRun()
	d.Root = place.Root()
	g := guard.New(guard.Options{Workspace: place, Policy: policy.Combine(d, policy.Layer{Rules: layer, Trusted: true}), Personal: filepath.Join(base, "personal"),
		Audit: recorderFunc(func(e audit.Entry) error {
			b, err := json.Marshal(e.Input)
			record = string(b)
			return err
		})})
	text = g.Instructions(filepath.Join(ws, dir))
	if err := g.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	return text, record
}

func link(t *testing.T, to, from string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(from), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
}

func TestInstructionsOfAWorkspace(t *testing.T) {
	text, record := instructed(t, "", "a/b", func(ws string, write func(path, text string)) {
		write("AGENTS.md", "\ufeffROOT-AGENTS\n")
		write("GEMINI.md", "ROOT-GEMINI")
		link(t, "AGENTS.md", filepath.Join(ws, "CLAUDE.md"))
		write(".github/copilot-instructions.md", "ROOT-COPILOT")
		write(".github/instructions/go.instructions.md", "---\napplyTo: \"**/*.go, *.mod\"\n---\nFOR-GO")
		write(".github/instructions/deep/all.instructions.md", "---\ndescription: x\napplyTo: '**'\n---\nFOR-ALL")
		write(".github/instructions/list.instructions.md", "---\napplyTo:\n  - \"*.ts\"\n---\nFOR-TS")
		write(".github/instructions/notes.md", "NOT-INSTRUCTIONS")
		write("a/AGENTS.md", "IN-A")
		write("a/b/CLAUDE.md", "IN-B")
		write("a/c/AGENTS.md", "IN-C")
		write(filepath.Join(ws, "..", "AGENTS.md"), "ABOVE")
		write(filepath.Join(ws, "..", "personal", "copilot-instructions.md"), "MY-OWN")
		write(filepath.Join(ws, "..", "personal", "instructions", "x.instructions.md"), "MY-OTHER")
	})
	at := -1
	for _, want := range []string{"<custom_instruction>\nMY-OWN\n</custom_instruction>", "MY-OTHER", "ROOT-COPILOT", "<custom_instruction>\nROOT-AGENTS\n</custom_instruction>", "ROOT-GEMINI",
		"FOR-ALL", "for files that match **/*.go or *.mod.\n\n", "FOR-GO", "that match *.ts.", "FOR-TS", "for files below a.\n\nIN-A", "for files below a/b.\n\nIN-B"} {
		i := strings.Index(text, want)
		if i <= at {
			t.Errorf("%q is missing or out of order in\n%s", want, text)
		}
		at = i
	}
	for _, not := range []string{"NOT-INSTRUCTIONS", "IN-C", "ABOVE"} {
		if strings.Contains(text, not) {
			t.Errorf("%s is told", not)
		}
	}
	if n := strings.Count(text, "ROOT-AGENTS"); n != 1 {
		t.Errorf("told %d times", n)
	}
	if !strings.Contains(record, `{"bytes":11,"file":"AGENTS.md"}`) {
		t.Errorf("record %s", record)
	}
}

// A file that the policy denies, and one that is no plain file inside the
// workspace, is not told, and the record says so.
func TestInstructionsThatAreWithheld(t *testing.T) {
	const secret = "SECRET-OF-SOMEBODY"
	for name, c := range map[string]struct {
		rules string
		plant func(t *testing.T, ws string, write func(path, text string))
	}{
		"link to outside": {"", func(t *testing.T, ws string, write func(path, text string)) {
			write(filepath.Join(ws, "..", "credentials"), secret)
			link(t, "../credentials", filepath.Join(ws, "AGENTS.md"))
		}},
		"directory that is a link to outside": {"", func(t *testing.T, ws string, write func(path, text string)) {
			write(filepath.Join(ws, "..", "other", "copilot-instructions.md"), secret)
			write(filepath.Join(ws, "..", "other", "instructions", "x.instructions.md"), secret)
			link(t, "../other", filepath.Join(ws, ".github"))
		}},
		"denied by name": {"reads: {deny: [AGENTS.md]}\n", func(_ *testing.T, _ string, write func(path, text string)) { write("AGENTS.md", secret) }},
		"all denied": {"reads: {deny: [\"**\"]}\n", func(_ *testing.T, _ string, write func(path, text string)) {
			write("AGENTS.md", secret)
			write(".github/instructions/x.instructions.md", secret)
		}},
		"link to a denied file": {"reads: {deny: [private/**]}\n", func(t *testing.T, ws string, write func(path, text string)) {
			write("private/x", secret)
			link(t, "private/x", filepath.Join(ws, "CLAUDE.md"))
		}},
		"scoped link to a denied file": {"reads: {deny: [.env]}\n", func(t *testing.T, ws string, write func(path, text string)) {
			write(".env", secret)
			link(t, "../../.env", filepath.Join(ws, ".github", "instructions", "x.instructions.md"))
		}},
		"tool denied": {"tools: {deny: [view]}\n", func(_ *testing.T, _ string, write func(path, text string)) { write("AGENTS.md", secret) }},
		"pipe": {"", func(t *testing.T, ws string, _ func(path, text string)) {
			if err := syscall.Mkfifo(filepath.Join(ws, "AGENTS.md"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		"directory": {"", func(_ *testing.T, _ string, write func(path, text string)) { write("AGENTS.md/x", secret) }},
		"device": {"", func(t *testing.T, ws string, _ func(path, text string)) {
			link(t, "/dev/zero", filepath.Join(ws, "AGENTS.md"))
		}},
		"loop": {"", func(t *testing.T, ws string, _ func(path, text string)) {
			link(t, "AGENTS.md", filepath.Join(ws, "AGENTS.md"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text, record := instructed(t, c.rules, ".", func(ws string, write func(path, text string)) { c.plant(t, ws, write) })
			if text != "" || !strings.Contains(record, "withheld") {
				t.Errorf("told %q, record %s", text, record)
			}
		})
	}
}

func TestInstructionsAreMaskedAndBounded(t *testing.T) {
	key := "ghp_" + "x7Qm2Lk9Rt4Vb8Zc1Np6Wd3Hs5Jf0Ga2Ye7U"
	text, record := instructed(t, "", ".", func(ws string, write func(path, text string)) {
		write("AGENTS.md", "use "+key+" to push")
		write("CLAUDE.md", "BEGIN "+strings.Repeat("0123456789", 1<<20))
		for i := range 100 {
			write(".github/instructions/"+strings.Repeat("x", i+1)+".instructions.md", strings.Repeat(string(rune('a'+i%26)), 10<<10+i))
		}
		write(filepath.Join(ws, "..", "personal", "copilot-instructions.md"), "mine: "+key)
	})
	if strings.Contains(text, key) || !strings.Contains(text, "to push") || !strings.Contains(record, `"hidden":1`) || strings.Contains(record, key) {
		t.Errorf("the key is told, or all is hidden: %.200s, %.400s", text, record)
	}
	if len(text) > 300<<10 || !strings.Contains(text, "BEGIN") || !strings.Contains(text, "the file has 10485766 bytes") || !strings.Contains(record, `"cut":true`) || !strings.Contains(record, "withheld") {
		t.Errorf("%d bytes, record %.300s", len(text), record)
	}
}
