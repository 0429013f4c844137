package copilotbridge_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	copilotbridge "github.com/copilot-bridge/copilot-bridge"
	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func open(t *testing.T, o copilotbridge.Options) *copilotbridge.Client {
	t.Helper()
	o.Demo = true
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := copilotbridge.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func session(t *testing.T, c *copilotbridge.Client, o copilotbridge.SessionOptions) *copilotbridge.Session {
	t.Helper()
	s, err := c.NewSession(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWrongOptions(t *testing.T) {
	run := func(context.Context, map[string]any) (string, error) { return "", nil }
	for name, o := range map[string]copilotbridge.Options{
		"no such directory": {Dir: filepath.Join(t.TempDir(), "none")},
		"no such setting":   {Settings: map[string]string{"colour": "red"}},
		"no such sandbox":   {Settings: map[string]string{"sandbox": "perhaps"}},
	} {
		o.Demo = true
		if c, err := copilotbridge.Open(t.Context(), o); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	c := open(t, copilotbridge.Options{})
	for name, tools := range map[string][]copilotbridge.Tool{
		"without a name":     {{Run: run}},
		"without a function": {{Name: "a"}},
		"twice":              {{Name: "a", Run: run}, {Name: "a", Run: run}},
	} {
		if _, err := c.NewSession(t.Context(), copilotbridge.SessionOptions{Tools: tools}); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.ResumeSession(t.Context(), "none", copilotbridge.SessionOptions{}); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Error(err)
	}
	if _, err := c.ResumeSession(t.Context(), "none", copilotbridge.SessionOptions{Chat: true}); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Error(err)
	}
	if c.Notice() == "" {
		t.Error("nobody is told that the demo model answers")
	}
	if models, err := c.Models(t.Context()); err != nil || len(models) == 0 {
		t.Error(models, err)
	}
}

// A tool's error reaches the model; a loop that is left ends the turn's tools.
func TestTools(t *testing.T) {
	began, ended := make(chan struct{}), false
	tools := []copilotbridge.Tool{
		{Name: "broken", Description: "x", Run: func(context.Context, map[string]any) (string, error) {
			return "", errors.New("out of paper")
		}},
		{Name: "slow", Description: "x", Run: func(ctx context.Context, _ map[string]any) (string, error) {
			close(began)
			<-ctx.Done()
			ended = true
			return "", ctx.Err()
		}},
	}
	for _, chat := range []bool{true, false} {
		s := session(t, open(t, copilotbridge.Options{}), copilotbridge.SessionOptions{Chat: chat, Tools: tools})
		text, err := s.Ask(t.Context(), "rehearsal: tool broken {}\nrehearsal: next\nrehearsal: text The printer is {{result}}.")
		if err != nil || text == "" {
			t.Errorf("chat %v: %q, %v", chat, text, err)
		}
		history, err := s.History(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		told := false
		for _, e := range history {
			if f, ok := e.(bridge.ToolFinished); ok {
				told = told || strings.Contains(f.Result+f.Error, "out of paper")
			}
		}
		if !told {
			t.Errorf("chat %v: nobody told the model: %+v", chat, history)
		}
	}
	s := session(t, open(t, copilotbridge.Options{}), copilotbridge.SessionOptions{Chat: true, Tools: tools})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for event, err := range s.Send(ctx, bridge.Prompt{Text: "rehearsal: tool slow {}\nrehearsal: next\nrehearsal: text never"}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := event.(bridge.ToolRequested); ok {
			<-began
			break
		}
	}
	if !ended {
		t.Error("the loop was left before its tool had ended")
	}
}

// A message to a running turn is heard at once or after it; both are answered
// to whoever reads the turn.
func TestSteer(t *testing.T) {
	var s *copilotbridge.Session
	said := func(ctx context.Context, err error) (string, error) {
		if err != nil {
			t.Error(err)
		}
		return "done", nil
	}
	tools := []copilotbridge.Tool{
		{Name: "steers", Description: "x", Run: func(ctx context.Context, _ map[string]any) (string, error) {
			return said(ctx, s.Steer(ctx, bridge.Prompt{Text: "rehearsal: text steered"}))
		}},
		{Name: "enqueues", Description: "x", Run: func(ctx context.Context, _ map[string]any) (string, error) {
			return said(ctx, s.Enqueue(ctx, bridge.Prompt{Text: "rehearsal: text enqueued"}))
		}},
	}
	for _, chat := range []bool{true, false} {
		s = session(t, open(t, copilotbridge.Options{}), copilotbridge.SessionOptions{Chat: chat, Tools: tools})
		if err := s.Steer(t.Context(), bridge.Prompt{Text: "x"}); bridge.CodeOf(err) != bridge.CodeConflict {
			t.Errorf("steered without a turn: %v", err)
		}
		for prompt, want := range map[string]string{
			"rehearsal: tool steers {}\nrehearsal: next\nrehearsal: text unsteered":       "steered",
			"rehearsal: tool enqueues {}\nrehearsal: next\nrehearsal: text the first":     "the first|enqueued",
			"rehearsal: delay 300ms\nrehearsal: text while the model has not said a word": "while the model has not said a word|steered late",
		} {
			var texts []string
			ends := 0
			for event, err := range s.Send(t.Context(), bridge.Prompt{Text: prompt}) {
				if err != nil {
					t.Fatal(err)
				}
				switch e := event.(type) {
				case bridge.ModelCalled:
					if strings.Contains(prompt, "delay") && len(texts) == 0 {
						_, _ = said(t.Context(), s.Steer(t.Context(), bridge.Prompt{Text: "rehearsal: delay 2500ms\nrehearsal: text steered late"}))
					}
				case bridge.MessageDone:
					if e.Text != "" {
						texts = append(texts, e.Text)
					}
				case bridge.TurnEnded:
					ends++
				default:
				}
			}
			if got := strings.Join(texts, "|"); got != want || ends != 1 {
				t.Errorf("chat %v, %q: %q, %d ends; want %q", chat, prompt, got, ends, want)
			}
		}
	}
}

// A session of one client can be resumed by another.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	c := open(t, copilotbridge.Options{Dir: dir})
	s := session(t, c, copilotbridge.SessionOptions{Title: "a title"})
	if text, err := s.Ask(t.Context(), "rehearsal: text one"); err != nil || text != "one" {
		t.Fatal(text, err)
	}
	if err := errors.Join(s.Close(t.Context()), c.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := open(t, copilotbridge.Options{Dir: dir}).ResumeSession(t.Context(), s.ID(), copilotbridge.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := again.Ask(t.Context(), "rehearsal: text two"); err != nil || text != "two" {
		t.Error(text, err)
	}
	var said []string
	history, err := again.History(t.Context())
	for _, e := range history {
		if m, ok := e.(bridge.MessageDone); ok {
			said = append(said, m.Text)
		}
	}
	if strings.Join(said, " ") != "one two" {
		t.Errorf("%q, %v", said, err)
	}
}

// A read-only client's agent writes nothing.
func TestReadOnly(t *testing.T) {
	c := open(t, copilotbridge.Options{ReadOnly: true})
	s := session(t, c, copilotbridge.SessionOptions{})
	denied := false
	for event, err := range s.Send(t.Context(), bridge.Prompt{Text: "create hello.txt saying hi"}) {
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := event.(bridge.ToolFinished); ok {
			denied = denied || !f.OK
		}
	}
	if !denied {
		t.Error("the file was written")
	}
}

// Secrets in a prompt do not reach the model, neither an agent nor a chat.
func TestSecretsAreHidden(t *testing.T) {
	secret := "ghp_" + strings.Repeat("a1B2c3", 6)
	for _, chat := range []bool{true, false} {
		s := session(t, open(t, copilotbridge.Options{}), copilotbridge.SessionOptions{Chat: chat})
		if _, err := s.Ask(t.Context(), "my token is "+secret); err != nil {
			t.Fatal(err)
		}
		history, err := s.History(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		hidden := false
		for _, e := range history {
			data, err := bridge.EncodeEvent(e)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), secret) {
				t.Errorf("chat %v: %s", chat, data)
			}
			hidden = hidden || strings.Contains(string(data), "REDACTED")
		}
		if !hidden {
			t.Errorf("chat %v: nothing was hidden in %+v", chat, history)
		}
	}
}

// Parts are planned, done and merged into the workspace.
func TestOrchestrate(t *testing.T) {
	dir := t.TempDir()
	c := open(t, copilotbridge.Options{Dir: dir})
	var told []string
	o, err := c.Orchestrate(t.Context(), "create a.txt saying one, and create b.txt saying two", copilotbridge.OrchestrateOptions{Progress: func(line string) { told = append(told, line) }})
	if err != nil || !o.Success || len(o.Parts) == 0 || len(told) == 0 {
		t.Fatalf("%+v, %v, %q", o, err, told)
	}
	for name, want := range map[string]string{"a.txt": "one", "b.txt": "two"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
