package agenttest

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// create is a turn that makes the model create a file and then report.
func (h Harness) create(path string) bridge.Prompt {
	return Script(Tool(h.CreateTool, map[string]any{"path": path, "file_text": "hi\n"}), "next", "text done")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (h Harness) gate(t *testing.T) {
	if h.lacks(Works) {
		ctx, a := h.agent(t)
		_, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()})
		refused(t, "an agent", err)
		return
	}
	if h.lacks(GatesTools) {
		t.Run("a denied call ends the turn", h.observed)
		return
	}
	t.Run("allowed", func(t *testing.T) {
		g, dir := AllowAll(), t.TempDir()
		ctx, _, s := h.open(t, bridge.SessionSpec{Gate: g, WorkingDir: dir})
		path := join(dir, "hello.txt")
		o := Collect(ctx, s, h.create(path))
		if o.Err != nil || o.Text() != "done" {
			t.Fatalf("%q, %v", o.Text(), o.Err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "hi\n" {
			t.Errorf("the file holds %q, %v", b, err)
		}
		began, ended := Find[bridge.ToolStarted](o), Find[bridge.ToolFinished](o)
		if len(began) != 1 || len(ended) != 1 || began[0].Call.Name != h.CreateTool || ended[0].CallID != began[0].Call.ID || !ended[0].OK {
			t.Errorf("events %+v %+v", began, ended)
		}
		if len(g.Befores()) != 1 || len(g.Afters()) != 1 {
			t.Errorf("the gate saw %d before, %d after", len(g.Befores()), len(g.Afters()))
		}
		if r := g.Requests(); len(r) == 0 || r[0].Kind != bridge.PermissionWrite || !slices.Contains(r[0].Paths, path) {
			t.Errorf("the gate was asked %+v", r)
		}
		asked, decided := Find[bridge.PermissionAsked](o), Find[bridge.PermissionDecided](o)
		if len(asked) == 0 || len(decided) != len(asked) || decided[0].Decision.Verdict != bridge.Allow || decided[0].RequestID != asked[0].Request.ID {
			t.Errorf("permission events %+v %+v", asked, decided)
		}
	})
	deny := bridge.Decision{Verdict: bridge.Deny, Reason: "house rules"}
	for name, g := range map[string]bridge.Gate{
		"denied before":      &Gate{BeforeFunc: func(bridge.ToolCall) bridge.Decision { return deny }},
		"denied on request":  &Gate{PermitFunc: func(bridge.PermissionRequest) bridge.Decision { return deny }},
		"panic before":       &Gate{BeforeFunc: func(bridge.ToolCall) bridge.Decision { panic("bug") }},
		"panic on request":   &Gate{PermitFunc: func(bridge.PermissionRequest) bridge.Decision { panic("bug") }},
		"an empty decision":  &Gate{PermitFunc: func(bridge.PermissionRequest) bridge.Decision { return bridge.Decision{} }},
		"no gate whatsoever": nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, _, s := h.open(t, bridge.SessionSpec{Gate: g, WorkingDir: dir})
			path := join(dir, "hello.txt")
			o := Collect(ctx, s, h.create(path))
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if exists(path) {
				t.Error("the file was created")
			}
			ended := Find[bridge.ToolFinished](o)
			if len(ended) != 1 || ended[0].OK || ended[0].Error == "" {
				t.Errorf("tool ended with %+v", ended)
			}
			if strings.HasPrefix(name, "denied") && len(ended) == 1 && !strings.Contains(ended[0].Error, "house rules") {
				t.Errorf("the reason is lost: %q", ended[0].Error)
			}
		})
	}
	t.Run("the result may be rewritten or withheld", func(t *testing.T) {
		for name, f := range map[string]func(bridge.ToolCall, any) (any, error){
			"rewritten": func(_ bridge.ToolCall, r any) (any, error) {
				m, ok := r.(map[string]any)
				if !ok {
					return nil, errors.New("not an object")
				}
				m["textResultForLlm"] = "a secret was here"
				return m, nil
			},
			"withheld": func(bridge.ToolCall, any) (any, error) { return nil, errors.New("cannot check") },
			"panicked": func(bridge.ToolCall, any) (any, error) { panic("bug") },
		} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				ctx, _, s := h.open(t, bridge.SessionSpec{Gate: &Gate{AfterFunc: f}, WorkingDir: dir})
				o := Collect(ctx, s, h.create(join(dir, "x.txt")))
				ended := Find[bridge.ToolFinished](o)
				if o.Err != nil || len(ended) != 1 {
					t.Fatalf("%+v, %v", ended, o.Err)
				}
				want := map[string]string{"rewritten": "a secret was here", "withheld": "withheld", "panicked": "withheld"}[name]
				if got := ended[0].Result + ended[0].Error; !strings.Contains(got, want) || strings.Contains(got, "x.txt") {
					t.Errorf("the model sees %q", got)
				}
			})
		}
	})
}

// observed is the contract of agents that only tell of tool calls: the gate
// hears of each, and one that it denies is the last.
func (h Harness) observed(t *testing.T) {
	g := &Gate{BeforeFunc: func(bridge.ToolCall) bridge.Decision { return bridge.Decision{Reason: "house rules"} }}
	dir := t.TempDir()
	ctx, _, s := h.open(t, bridge.SessionSpec{Gate: g, WorkingDir: dir})
	o := Collect(ctx, s, h.create(join(dir, "hello.txt")))
	if bridge.CodeOf(o.Err) != bridge.CodeDenied || !strings.Contains(o.Err.Error(), "house rules") {
		t.Errorf("the turn ended with %v", o.Err)
	}
	if len(g.Befores()) != 1 || o.Text() == "done" {
		t.Errorf("the gate saw %d calls, and the turn went on to %q", len(g.Befores()), o.Text())
	}
	if o := Collect(ctx, s, Say("still here")); o.Err != nil || o.Text() != "still here" {
		t.Errorf("the next turn: %q, %v", o.Text(), o.Err)
	}
}

func (h Harness) clientTools(t *testing.T) {
	if h.lacks(ClientTools) {
		ctx, a := h.agent(t)
		_, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir(), Tools: []bridge.ToolSpec{{Name: "look"}}})
		refused(t, "a tool of the caller", err)
		return
	}
	weather := bridge.ToolSpec{Name: "get_weather", Description: "the weather of a city", Schema: map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}
	call := func(city string) string { return Tool("get_weather", map[string]any{"city": city}) }
	for _, profile := range []bridge.Profile{bridge.ProfileChat, bridge.ProfileAgent} {
		if profile == bridge.ProfileAgent && h.lacks(Works) {
			continue // see Gate
		}
		t.Run("parked and answered, "+string(profile), func(t *testing.T) {
			ctx, _, s := h.open(t, bridge.SessionSpec{Profile: profile, Tools: []bridge.ToolSpec{weather}})
			var cities []string
			var o Outcome
			for ev, err := range s.Send(ctx, Script(call("Oslo"), call("Rome"), "next", "text both known")) {
				if err != nil {
					t.Fatal(err)
				}
				o.Events = append(o.Events, ev)
				r, ok := ev.(bridge.ToolRequested)
				if !ok {
					continue
				}
				args, _ := r.Call.Args.(map[string]any)
				city, _ := args["city"].(string)
				cities = append(cities, city)
				if r.Call.Name != "get_weather" || r.Call.ID == "" {
					t.Errorf("call %+v", r.Call)
				}
				if err := s.Resolve(ctx, r.RequestID, bridge.ToolResult{Text: "rain", Failed: city == "Rome"}); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(cities)
			if !slices.Equal(cities, []string{"Oslo", "Rome"}) || o.Text() != "both known" {
				t.Errorf("asked for %v, answered %q", cities, o.Text())
			}
		})
	}
	t.Run("an answer that nobody waits for", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{Tools: []bridge.ToolSpec{weather}})
		if err := s.Resolve(ctx, "no-such-request", bridge.ToolResult{Text: "x"}); bridge.CodeOf(err) != bridge.CodeNotFound {
			t.Errorf("resolve: %v", err)
		}
	})
	t.Run("aborted while parked", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{Tools: []bridge.ToolSpec{weather}})
		for ev, err := range s.Send(ctx, Script(call("Oslo"), "next", "text no")) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := ev.(bridge.ToolRequested); ok {
				break
			}
		}
		if o := Collect(ctx, s, Say("free again")); o.Err != nil || o.Text() != "free again" {
			t.Errorf("the next turn: %q, %v", o.Text(), o.Err)
		}
	})
}
