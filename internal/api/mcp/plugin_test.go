package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// details are what OpenClaw grades a call by, whether it failed or not.
func details(t *testing.T, r *sdk.CallToolResult) Details {
	t.Helper()
	var d Details
	data, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return d
}

func TestPluginGrades(t *testing.T) {
	fails := map[string]error{}
	for _, c := range []bridge.Code{bridge.CodeDenied, bridge.CodeInvalid, bridge.CodeTimeout, bridge.CodeCanceled, bridge.CodeUnavailable, bridge.CodeInternal} {
		fails[string(c)] = &bridge.Error{Code: c, Message: "no luck", Remedy: "do better"}
	}
	denied := ToolUse{Name: "bash", Denied: true, Error: "the policy says no"}
	done := map[string]TaskResult{
		"good":         {Text: "ok", ToolCalls: []ToolUse{{Name: "create", OK: true}, denied}},
		"idle":         {Text: "ok"},
		"broken":       {Text: "ok", ToolCalls: []ToolUse{{Name: "bash", Error: "exit 1"}}},
		"all refused":  {Text: "ok", ToolCalls: []ToolUse{denied, denied}},
		"no answer":    {},
		"with notice ": {Text: "ok", Notice: "not Copilot"},
	}
	f := &fake{task: func(_ context.Context, task Task) (TaskResult, error) { return done[task.Prompt], fails[task.Prompt] }}
	c := connect(t, NewPlugin(f, Options{}), nil)
	for prompt, want := range map[string]struct{ status, text string }{
		"denied": {"denied", "[denied] no luck\nWhat to do: do better"}, "invalid": {"invalid", "no luck"}, "timeout": {"timeout", "no luck"},
		"canceled": {"cancelled", "no luck"}, "unavailable": {"failed", "no luck"}, "internal": {"failed", "no luck"},
		"good": {"ok", "Tool calls:\n1. `create` (0.0 s)\n2. `bash` (0.0 s), failed: the policy says no"}, "idle": {"ok", "0 tokens in"}, "broken": {"ok", "exit 1"},
		"all refused": {"denied", "failed: the policy says no"}, "no answer": {"ok", "Copilot said nothing."}, "with notice ": {"ok", "> not Copilot"},
	} {
		for _, tool := range []string{ToolCode, ToolCodeVerbose} {
			r := call(t, c, tool, map[string]any{"task": prompt})
			d := details(t, r)
			if d.Status != want.status || d.OK != (want.status == "ok") || (d.Error == "") != d.OK || d.TimedOut != (want.status == "timeout") {
				t.Errorf("%s %s: %+v", tool, prompt, d)
			}
			if tool == ToolCode && !strings.Contains(text(r), want.text) {
				t.Errorf("%s: %s", prompt, text(r))
			}
		}
	}
	if d := details(t, call(t, c, ToolCode, map[string]any{"task": 5})); d.OK || d.Status != "invalid" || d.Error == "" {
		t.Errorf("%+v", d)
	}
}

func TestPluginGradesParts(t *testing.T) {
	results := map[string]LargeResult{
		"all":  {Success: true, Summary: "2 of 2", Tasks: []PartDone{{ID: "a", State: "done"}, {ID: "b", State: "done"}}},
		"some": {Summary: "1 of 2", Run: "r1", Tasks: []PartDone{{ID: "a", State: "done"}, {ID: "b", State: "failed", Error: "no\nluck"}}},
		"none": {Summary: "0 of 1", Tasks: []PartDone{{ID: "a", State: "skipped"}}},
	}
	f := &fake{large: func(_ context.Context, task LargeTask) (LargeResult, error) {
		task.Watch("part a\x1b[2J started")
		r := results[task.Task]
		r.Run = fmt.Sprintf("%s-%d-%d", r.Run, task.Concurrency, task.TimeoutMs)
		return r, nil
	}}
	c := connect(t, NewPlugin(f, Options{}), nil)
	for task, status := range map[string]string{"all": "ok", "some": "partial", "none": "failed"} {
		r := call(t, c, ToolOrchestrate, map[string]any{"task": task})
		if d := details(t, r); d.Status != status || d.OK != (status == "ok") || d.Result == nil {
			t.Errorf("%s: %+v", task, d)
		}
		if !strings.Contains(text(r), results[task].Summary) || !strings.Contains(text(r), "1. **a**: ") {
			t.Errorf("%s", text(r))
		}
	}
	r := call(t, c, ToolOrchestrate, map[string]any{"task": "some", "maxConcurrency": 5, "timeout": 1500})
	if d := details(t, r); !strings.Contains(d.Remedy, "orchestrate --resume r1-5-1500") || !strings.Contains(text(r), "\n   no\n   luck") {
		t.Errorf("%+v\n%s", d, text(r))
	}
}

// The steps of a verbose task are numbered, come while it runs, and are all in
// the end.
func TestPluginSteps(t *testing.T) {
	f := &fake{task: func(_ context.Context, task Task) (TaskResult, error) {
		for _, ev := range []bridge.Event{
			bridge.SessionOpened{Session: "s1"},
			bridge.ToolStarted{Call: bridge.ToolCall{ID: "1", Name: "create", Args: map[string]any{"path": "a\x1b[2J.txt"}}},
			bridge.ToolStarted{Call: bridge.ToolCall{ID: "2", Name: "bash", Args: map[string]any{"command": "make"}}},
			bridge.ToolFinished{CallID: "2", Name: "bash", Error: "denied", Duration: time.Second},
			bridge.ToolFinished{CallID: "1", Name: "create", OK: true, Duration: 100 * time.Millisecond},
			bridge.ToolFinished{CallID: "unknown", OK: true},
			bridge.TextDelta{Text: "Do"}, bridge.Notice{Level: "info", Text: "a.txt"}, bridge.Notice{Level: "warning", Text: "slow"},
			bridge.MessageDone{Text: "Done\nit."}, bridge.MessageDone{Text: "inner", AgentID: "sub"}, bridge.MessageDone{},
		} {
			task.Watch(ev)
		}
		return TaskResult{Text: "Done\nit.", Session: "s1"}, nil
	}}
	var mu sync.Mutex
	var said []string
	c := connect(t, NewPlugin(f, Options{}), &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, r.Params.Message)
	}})
	p := &sdk.CallToolParams{Name: ToolCodeVerbose, Arguments: map[string]any{"task": "do"}}
	p.SetProgressToken("t1")
	r, err := c.CallTool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	const log = "1. session `s1` opened\n2. `create`: a\\x1b[2J.txt (0.1 s)\n3. `bash`: make (1.0 s), failed: denied\n4. warning: slow\n5. says: Done it.\n"
	if !strings.Contains(text(r), "Done\nit.\n\n---\nSteps:\n"+log) {
		t.Errorf("%s", text(r))
	}
	begun := "1. session `s1` opened\n2. `create`: a\\x1b[2J.txt …\n"
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(time.Millisecond) {
		mu.Lock()
		all := slices.Clone(said)
		mu.Unlock()
		if slices.Contains(all, begun) && slices.Contains(all, log) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("said %q", all)
		}
	}
}

// A task without end does not fill the memory, and a report stays short.
func TestStepsAreBounded(t *testing.T) {
	s := &steps{}
	for i := range maxSteps + 50 {
		id := fmt.Sprint(i)
		s.add(bridge.ToolStarted{Call: bridge.ToolCall{ID: id, Name: "view"}})
		s.add(bridge.ToolFinished{CallID: id, OK: true})
	}
	if n := strings.Count(s.String(), "\n"); n != maxSteps+1 || !strings.HasSuffix(s.String(), "… and 50 more\n") {
		t.Errorf("%d lines", n)
	}
	if n := strings.Count(s.recent(), "\n"); n != shownSteps+1 {
		t.Errorf("%d lines", n)
	}
	if len(s.open) != 0 || len(s.calls) != 0 {
		t.Errorf("%d open, %d calls", len(s.open), len(s.calls))
	}
}

func TestPluginToolsAreServed(t *testing.T) {
	c := connect(t, NewPlugin(&fake{}, Options{}), nil)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := PluginTools()
	if err != nil {
		t.Fatal(err)
	}
	var written struct {
		Version int
		Tools   []struct {
			Name, Label, Description string
			Parameters               any
		}
	}
	if err := json.Unmarshal(data, &written); err != nil || len(written.Tools) != len(list.Tools) {
		t.Fatalf("%v: %s", err, data)
	}
	for i, tool := range list.Tools {
		w := written.Tools[i]
		have, err1 := json.Marshal(tool.InputSchema)
		want, err2 := json.Marshal(w.Parameters)
		if err1 != nil || err2 != nil || tool.Name != w.Name || tool.Title != w.Label || tool.Description != w.Description || string(have) != string(want) {
			t.Errorf("%+v is written as %+v", tool, w)
		}
	}
	mark, _ := c.InitializeResult().Capabilities.Experimental[pluginKey].(map[string]any)
	if mark["version"] != float64(written.Version) {
		t.Errorf("%v", mark)
	}
}
