package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// example is a block of code in docs/clients.md.
type example struct{ section, language, code string }

var (
	block = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	title = regexp.MustCompile(`(?m)^###? (.*)$`)
)

func examples(t *testing.T) []example {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	for _, m := range block.FindAllSubmatchIndex(text, -1) {
		titles := title.FindAllSubmatch(text[:m[0]], -1)
		out = append(out, example{section: string(titles[len(titles)-1][1]), language: string(text[m[2]:m[3]]), code: string(text[m[4]:m[5]])})
	}
	return out
}

// TestDocs tries what docs/clients.md says, as it stands there but for the
// address.
func TestDocs(t *testing.T) {
	all := examples(t)
	var configs []string
	for _, e := range all {
		if e.language == "yaml" {
			configs = append(configs, e.code)
		}
	}
	if len(configs) != 2 {
		t.Fatalf("there are %d configurations", len(configs))
	}
	const own = "COPILOT_BYOK_MODEL=gpt-5"
	s := serveWith(t, configs[0], own)
	s.model.Handle(newcomer)
	shims := programs(t)
	tried := map[string]int{}
	files := map[string]string{} // below the home, as earlier blocks of the section have them
	for _, e := range all {
		code := strings.ReplaceAll(e.code, "http://127.0.0.1:8788", s.url)
		switch e.language {
		case "yaml":
			continue
		case "toml":
			files[".codex/config.toml"] = code
			continue
		}
		tried[e.section]++
		t.Run(fmt.Sprintf("%s %d", e.section, tried[e.section]), func(t *testing.T) {
			d := newDesk(t)
			d.path = shims
			d.put(t, files)
			switch out := d.try(t, e.language, code); {
			case strings.Contains(code, "create hello.txt"):
				said(t, out, "I have done it.")
				d.holds(t, "hello.txt", "hi\n")
			case e.section == "Models":
				if !strings.Contains(out, `"gpt-5"`) || !strings.Contains(out, `"agent/gpt-5"`) {
					t.Errorf("it wrote %q", out)
				}
			case !strings.Contains(spaceless(out), "Hellofromthemodel."):
				t.Errorf("it wrote %q", out)
			}
		})
	}
	for _, section := range []string{"Models", "curl", "OpenAI, JavaScript", "OpenAI, Go", "Anthropic, JavaScript", "Vercel AI SDK", "Claude Code", "Codex CLI"} {
		if tried[section] == 0 {
			t.Errorf("the section %q has no example", section)
		}
	}
	t.Run("aliases", func(t *testing.T) {
		s := serveWith(t, configs[1], own)
		c := newGoClient(s, "any")
		for model, known := range map[string]bool{"gpt-5": true, "gpt-5.5": true, "claude-sonnet-4-5": true, "gpt-6": false} {
			p := c.prompt(openai.UserMessage("rehearsal: text Yes."))
			p.Model = model
			r, err := c.Chat.Completions.New(t.Context(), p)
			if !known {
				fault{404, "model_not_found", "invalid_request_error", "model", "gpt-5"}.check(t, err)
			} else if err != nil || r.Choices[0].Message.Content != "Yes." {
				t.Errorf("%s: %v", model, err)
			}
		}
	})
}

// TestDocsNameTheVersions compares those that are told with those that are
// tried.
func TestDocsNameTheVersions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"npm", "agents"} {
		var manifest struct{ Dependencies map[string]string }
		data, err := os.ReadFile(filepath.Join(folder, "package.json"))
		if err == nil {
			err = json.Unmarshal(data, &manifest)
		}
		if err != nil {
			t.Fatal(err)
		}
		delete(manifest.Dependencies, "zod") // only helps the scripts
		for name, version := range manifest.Dependencies {
			if !bytes.Contains(text, []byte(" "+version)) {
				t.Errorf("%s %s is not in docs/clients.md", name, version)
			}
		}
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/openai/openai-go/v3").Output()
	if version := bytes.TrimSpace(out); err != nil || !bytes.Contains(text, version) {
		t.Errorf("openai-go %s is not in docs/clients.md: %v", version, err)
	}
}

// newcomer answers what the examples ask for, with whatever tools there are.
func newcomer(r rehearsal.Request) (rehearsal.Reply, bool) {
	prompt := r.LastUser()
	switch {
	case strings.Contains(prompt, "Say hello"):
		return rehearsal.Reply{rehearsal.Text("Hello from the model.")}, true
	case !strings.Contains(prompt, "create hello.txt saying hi"):
		return nil, false
	case len(r.ToolResults()) > 0:
		return rehearsal.Reply{rehearsal.Text("I have done it.")}, true
	}
	for _, tool := range r.ToolNames() {
		switch tool {
		case "exec_command":
			return rehearsal.Reply{rehearsal.ToolCall(tool, map[string]any{"cmd": "echo hi > hello.txt"})}, true
		case "Write":
			if dir := workingDirectory.FindStringSubmatch(prompt); dir != nil {
				return rehearsal.Reply{rehearsal.ToolCall(tool, map[string]any{"file_path": filepath.Join(dir[1], "hello.txt"), "content": "hi\n"})}, true
			}
		}
	}
	return rehearsal.Reply{rehearsal.Text("I have no tool for that.")}, true
}

var workingDirectory = regexp.MustCompile(`(?m)Primary working directory: (.+)$`)

// spaceless makes words of a stream comparable that stand in one event each.
func spaceless(s string) string {
	s = regexp.MustCompile(`(?m)^(event|data): .*?"delta":"([^"]*)".*$`).ReplaceAllString(s, "$2")
	return strings.Join(strings.Fields(s), "")
}

// programs makes a directory of the coding agents under their usual names.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(claudeCode(t), filepath.Join(dir, "claude")); err != nil {
		t.Fatal(err)
	}
	codex := "#!/bin/sh\nexec node '" + codexProgram(t) + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "codex"), []byte(codex), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// try runs an example as a reader would.
func (d *desk) try(t *testing.T, language, code string) string {
	t.Helper()
	switch language {
	case "sh":
		return d.run(t, "sh", "-e", "-c", code)
	case "js":
		d.put(t, map[string]string{"example.mjs": code})
		if err := os.Symlink(modules(t, "npm"), filepath.Join(d.home, "node_modules")); err != nil {
			t.Fatal(err)
		}
		return d.run(t, "node", filepath.Join(d.home, "example.mjs"))
	case "go":
		d.put(t, map[string]string{"example.go": code})
		var stderr bytes.Buffer
		cmd := exec.Command("go", "run", filepath.Join(d.home, "example.go"))
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, &stderr)
		}
		return string(out)
	}
	t.Fatalf("nobody knows how to run %q", language)
	return ""
}

// put writes files below the home.
func (d *desk) put(t *testing.T, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(d.home, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
