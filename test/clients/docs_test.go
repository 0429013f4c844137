package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

// example is a code block of one of the client guides.
type example struct{ section, language, code string }

// guides returns docs/guides/clients.md and docs/guides/coding-agents.md.
func guides(t *testing.T) []byte {
	t.Helper()
	var text []byte
	for _, name := range []string{"clients.md", "coding-agents.md"} {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", name))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, page...)
	}
	return text
}

var (
	block = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	title = regexp.MustCompile(`(?m)^###? (.*)$`)
)

func examples(t *testing.T) []example {
	t.Helper()
	text := guides(t)
	var out []example
	for _, m := range block.FindAllSubmatchIndex(text, -1) {
		titles := title.FindAllSubmatch(text[:m[0]], -1)
		out = append(out, example{section: string(titles[len(titles)-1][1]), language: string(text[m[2]:m[3]]), code: string(text[m[4]:m[5]])})
	}
	return out
}

// TestDocs runs the examples of the guides. Only the address is replaced.
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
	s := serve(t, own)
	s.model.Handle(answerExample)
	shims := programs(t)
	tried := map[string]int{}
	files := map[string]string{} // below the home, from earlier blocks of the section
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
			d := newAgentBench(t, "COPILOT_BRIDGE_PORT="+s.url[strings.LastIndexByte(s.url, ':')+1:])
			d.path = shims
			d.writeFiles(t, files)
			switch out := d.runExample(t, e.language, code); {
			case strings.Contains(code, "create hello.txt"):
				if !strings.HasPrefix(out, "I created hello.txt.\n") {
					t.Errorf("the output is %q", out)
				}
				d.checkFile(t, "hello.txt", "hi\n")
			case e.section == "Models":
				if !strings.Contains(out, `"gpt-5"`) || !strings.Contains(out, `"agent/gpt-5"`) {
					t.Errorf("the output is %q", out)
				}
			case !strings.Contains(withoutSpaces(out), "Hellofromthemodel."):
				t.Errorf("the output is %q", out)
			}
		})
	}
	for _, section := range []string{"Models", "curl", "OpenAI, JavaScript", "OpenAI, Go", "Anthropic, JavaScript", "Vercel AI SDK", "Launch", "Claude Code", "Codex CLI"} {
		if tried[section] == 0 {
			t.Errorf("the section %q has no example", section)
		}
	}
	for config, models := range map[string]map[string]bool{
		configs[0]: {"gpt-5": true, "gpt-5.5": true, "claude-sonnet-4-5": true, "gpt-6": true},
		configs[1]: {"gpt-5": true, "gpt-5-2025-08-07": true, "gpt-5.5": false, "any": false},
	} {
		t.Run(config, func(t *testing.T) {
			s := serveWith(t, config, own)
			c := newGoClient(s, "any")
			for model, known := range models {
				p := c.prompt(openai.UserMessage("rehearsal: text Yes."))
				p.Model = model
				r, err := c.Chat.Completions.New(t.Context(), p)
				if !known {
					fault{404, "model_not_found", "invalid_request_error", "model", "gpt-5"}.check(t, err)
				} else if err != nil || r.Choices[0].Message.Content != "Yes." || r.Model != "gpt-5" {
					t.Errorf("%s: %v", model, err)
				}
			}
		})
	}
}

// TestDocsNameTheVersions checks that the guides name the versions that the
// tests use.
func TestDocsNameTheVersions(t *testing.T) {
	text := guides(t)
	for _, folder := range []string{"npm", "agents"} {
		var manifest struct{ Dependencies, OptionalDependencies map[string]string }
		data, err := os.ReadFile(filepath.Join(folder, "package.json"))
		if err == nil {
			err = json.Unmarshal(data, &manifest)
		}
		if err != nil {
			t.Fatal(err)
		}
		delete(manifest.Dependencies, "zod") // only used by the scripts
		maps.Copy(manifest.Dependencies, manifest.OptionalDependencies)
		for name, version := range manifest.Dependencies {
			if !bytes.Contains(text, []byte(" "+version)) {
				t.Errorf("%s %s is not in the guides for clients", name, version)
			}
		}
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/openai/openai-go/v3").Output()
	if version := bytes.TrimSpace(out); err != nil || !bytes.Contains(text, version) {
		t.Errorf("openai-go %s is not in the guides for clients: %v", version, err)
	}
}

// answerExample answers the greeting of the examples; what an agent is asked to do,
// the model does by itself, as in demo mode.
func answerExample(r demomodel.Request) (demomodel.Reply, bool) {
	return demomodel.Reply{demomodel.Text("Hello from the model.")}, strings.Contains(r.LastUser(), "Say hello")
}

// withoutSpaces reduces a stream to its text and removes all spaces, so that texts
// can be compared even if each word has its own event.
func withoutSpaces(s string) string {
	s = regexp.MustCompile(`(?m)^(event|data): .*?"delta":"([^"]*)".*$`).ReplaceAllString(s, "$2")
	return strings.Join(strings.Fields(s), "")
}

// programs creates a directory with links to the coding agents and the program under
// test, under their usual names.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, program := range map[string]string{"claude": claudeCode(t), "copilot-bridge": binary} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	codex := "#!/bin/sh\nexec node '" + codexProgram(t) + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "codex"), []byte(codex), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runExample runs an example as a reader would.
func (d *agentBench) runExample(t *testing.T, language, code string) string {
	t.Helper()
	switch language {
	case "sh":
		return d.run(t, "sh", "-e", "-c", code)
	case "js":
		d.writeFiles(t, map[string]string{"example.mjs": code})
		if err := os.Symlink(modules(t, "npm"), filepath.Join(d.home, "node_modules")); err != nil {
			t.Fatal(err)
		}
		return d.run(t, "node", filepath.Join(d.home, "example.mjs"))
	case "go":
		d.writeFiles(t, map[string]string{"example.go": code})
		var stderr bytes.Buffer
		cmd := exec.Command("go", "run", filepath.Join(d.home, "example.go"))
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, &stderr)
		}
		return string(out)
	}
	t.Fatalf("no way to run the language %q", language)
	return ""
}

// writeFiles writes files below the home.
func (d *agentBench) writeFiles(t *testing.T, files map[string]string) {
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
