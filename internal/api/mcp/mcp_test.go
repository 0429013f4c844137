package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

func TestTools(t *testing.T) {
	for _, tt := range []struct {
		server *Server
		want   map[string]bool // by name: only reads
	}{
		{NewCopilot(&fake{}, Options{Version: "1"}), map[string]bool{ToolReadFile: true, ToolCreateFile: false, ToolListFiles: true, ToolCodeTask: false, ToolOrchestrate: false}},
		{NewPlugin(&fake{}, Options{Version: "1"}), map[string]bool{ToolCode: false, ToolCodeVerbose: false, ToolOrchestrate: false}},
		{NewMemory(memory{}, allowAll{}, Options{Version: "1"}), map[string]bool{ToolMemorySearch: true, ToolMemoryRead: true, ToolUserPrefs: true}},
	} {
		c := connect(t, tt.server, nil)
		list, err := c.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != len(tt.want) {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, tool := range list.Tools {
			in, _ := tool.InputSchema.(map[string]any)
			args, _ := in["properties"].(map[string]any)
			readOnly, known := tt.want[tool.Name]
			if !known || tool.Annotations.ReadOnlyHint != readOnly || *tool.Annotations.DestructiveHint == readOnly || tool.OutputSchema == nil || tool.Description == "" || args["_depth"] == nil {
				t.Errorf("%s: %+v", tool.Name, tool)
			}
		}
		if v := c.InitializeResult().ProtocolVersion; v != versions[0] {
			t.Errorf("speaks %s", v)
		}
	}
}

func TestCalls(t *testing.T) {
	f := &fake{
		read: func(_ context.Context, path string) (files.Content, error) {
			switch path {
			case "denied":
				return files.Content{}, &bridge.Error{Code: bridge.CodeDenied, Message: "no", Remedy: "ask"}
			case "broken":
				return files.Content{}, errors.New("disk on fire")
			}
			return files.Content{Path: path, Content: "hi", Encoding: "utf-8"}, nil
		},
	}
	c := connect(t, NewCopilot(f, Options{}), nil)
	var file files.Content
	structured(t, call(t, c, ToolReadFile, map[string]any{"path": "a"}), &file)
	if file.Content != "hi" {
		t.Errorf("%+v", file)
	}
	for _, tt := range []struct {
		args map[string]any
		code string
	}{
		{map[string]any{"path": "denied"}, "denied"},
		{map[string]any{"path": "broken"}, "internal"},
		{map[string]any{}, "invalid"},
		{map[string]any{"path": ""}, "invalid"},
		{map[string]any{"path": 7}, "invalid"},
		{map[string]any{"path": "a", "other": 1}, "invalid"},
		{map[string]any{"path": "a", "_depth": -1}, "invalid"},
		{map[string]any{"path": "a", "_depth": "deep"}, "invalid"},
	} {
		r := call(t, c, ToolReadFile, tt.args)
		if got := code(r); !r.IsError || got != tt.code || !strings.HasPrefix(text(r), "["+tt.code+"] ") {
			t.Errorf("%v: %s: %s", tt.args, got, text(r))
		}
	}
	if r := call(t, c, ToolReadFile, map[string]any{"path": "denied"}); !strings.Contains(text(r), "What to do: ask") {
		t.Errorf("%s", text(r))
	}
	m := connect(t, NewMemory(memory{search: func(_ context.Context, query string, limit int) (openclaw.Found, error) {
		return openclaw.Found{Hits: []openclaw.Hit{{File: query, Line: limit}}}, nil
	}}, allowAll{}, Options{}), nil)
	var hits openclaw.Found
	structured(t, call(t, m, ToolMemorySearch, map[string]any{"query": "q"}), &hits)
	if len(hits.Hits) != 1 || hits.Hits[0].Line != 5 {
		t.Errorf("%+v", hits)
	}
	if r := call(t, m, ToolMemorySearch, map[string]any{"query": "q", "limit": 51}); code(r) != "invalid" {
		t.Errorf("%s", text(r))
	}
}

func TestCodeTask(t *testing.T) {
	f := &fake{task: func(_ context.Context, task Task) (TaskResult, error) {
		task.Watch(bridge.SessionOpened{Session: "s1"})
		task.Watch(bridge.ToolStarted{Call: bridge.ToolCall{Name: "create", Args: map[string]any{"path": "a\x1b[2J.txt"}}})
		task.Watch(bridge.ToolFinished{Name: "bash", Error: "denied"})
		return TaskResult{Text: task.Prompt + "|" + task.Dir + "|" + task.Model, Session: "s1", Files: []string{"a.txt"},
			ToolCalls: []ToolUse{{Name: "create", OK: true}, {Name: "bash", Error: "denied"}}, Usage: Usage{InputTokens: 5}}, nil
	}}
	var mu sync.Mutex
	var said []string
	last := 0.0
	c := connect(t, NewCopilot(f, Options{}), &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		if r.Params.Progress <= last {
			t.Errorf("progress %v after %v", r.Params.Progress, last)
		}
		last = r.Params.Progress
		said = append(said, r.Params.Message)
	}})
	p := &sdk.CallToolParams{Name: ToolCodeTask, Arguments: map[string]any{"prompt": "do", "workingDir": "sub", "model": "m"}}
	p.SetProgressToken("t1")
	r, err := c.CallTool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var out TaskResult
	structured(t, r, &out)
	if out.Text != "do|/w/sub|m" || out.Session != "s1" || len(out.ToolCalls) != 2 || out.Usage.InputTokens != 5 {
		t.Errorf("%+v", out)
	}
	if s := text(r); !strings.Contains(s, "do|/w/sub|m") || !strings.Contains(s, "Files changed: `a.txt`") || !strings.Contains(s, "2. `bash` (0.0 s), failed: denied") {
		t.Errorf("%s", s)
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		mu.Lock()
		n := len(said)
		mu.Unlock()
		if n >= 4 { // the client hears them beside the answer
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"starting Copilot", "session s1", `tool create: a\x1b[2J.txt`, "tool bash failed: denied"}
	if !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if r := call(t, c, ToolCodeTask, map[string]any{"prompt": "x", "workingDir": "/outside"}); code(r) != "denied" {
		t.Errorf("%s", text(r))
	}
}

// Tasks of one directory take turns, in the order in which they came; those of
// others do not wait.
func TestLanes(t *testing.T) {
	l := &lanes{most: 3}
	first, err := l.enter(t.Context(), lane{dir: "a"}, func(int) { t.Error("the first waits") })
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.enter(t.Context(), lane{dir: "b"}, func(int) { t.Error("another directory waits") })
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := l.enter(t.Context(), lane{dir: "a", depth: 1}, func(int) { t.Error("what the first waits for waits for it") })
	if err != nil {
		t.Fatal(err)
	}
	other()
	deeper()
	var mu sync.Mutex
	var order []string
	var going sync.WaitGroup
	queued := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 3 {
		c := t.Context()
		if i == 1 {
			c = ctx
		}
		going.Go(func() {
			once := sync.OnceFunc(func() { queued <- struct{}{} })
			leave, err := l.enter(c, lane{dir: "a"}, func(ahead int) {
				mu.Lock()
				order = append(order, fmt.Sprintf("%d behind %d", i, ahead))
				mu.Unlock()
				once()
			})
			if i == 1 {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, fmt.Sprintf("%d runs", i))
			mu.Unlock()
			leave()
		})
		<-queued
	}
	if _, err := l.enter(t.Context(), lane{dir: "a"}, func(int) {}); bridge.CodeOf(err) != bridge.CodeBusy {
		t.Errorf("%v", err)
	}
	cancel()
	deadline := time.Now().Add(10 * time.Second)
	for { // the one that gave up has left
		l.mu.Lock()
		n := len(l.queue[lane{dir: "a"}])
		l.mu.Unlock()
		if n == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d in the queue", n)
		}
		<-time.After(time.Millisecond)
	}
	first()
	first() // does nothing
	going.Wait()
	if len(l.queue) != 0 {
		t.Errorf("left: %v", l.queue)
	}
	runs := slices.DeleteFunc(order, func(s string) bool { return !strings.HasSuffix(s, "runs") })
	if !slices.Equal(runs, []string{"0 runs", "2 runs"}) {
		t.Errorf("%q", runs)
	}
}

// A client's cancel ends its task, and lets the next one go.
func TestCancel(t *testing.T) {
	began, ended := make(chan string, 2), make(chan error, 2)
	f := &fake{task: func(ctx context.Context, task Task) (TaskResult, error) {
		began <- task.Prompt
		if task.Prompt == "second" {
			return TaskResult{Text: "done"}, nil
		}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return TaskResult{}, ctx.Err()
	}}
	c := connect(t, NewCopilot(f, Options{}), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: ToolCodeTask, Arguments: map[string]any{"prompt": "first"}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	<-began
	calls.Go(func() {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: ToolCodeTask, Arguments: map[string]any{"prompt": "second"}})
		if err != nil || !strings.HasPrefix(text(r), "done") {
			t.Errorf("%+v, %v", r, err)
		}
	})
	select {
	case p := <-began:
		t.Errorf("%s began beside the first", p)
	case <-time.After(20 * time.Millisecond): // long enough to see it go wrong, not to see it right
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	calls.Wait()
}

func TestConsent(t *testing.T) {
	ask := func(ctx context.Context, a approval.Asker) (TaskResult, error) {
		answer, err := a.Ask(ctx, approval.Question{Summary: "run: make\x1b[2J", Detail: "line one\nline two"})
		if err != nil {
			return TaskResult{}, err
		}
		return TaskResult{Text: fmt.Sprint(int(answer.Consent))}, nil
	}
	f := &fake{
		task: func(ctx context.Context, task Task) (TaskResult, error) {
			return ask(context.WithoutCancel(ctx), task.Asker)
		},
		read: func(ctx context.Context, _ string) (files.Content, error) {
			r, err := ask(ctx, Asker{})
			return files.Content{Content: r.Text}, err
		},
	}
	var asked *sdk.ElicitParams
	person := func(action, decision string) *sdk.ClientOptions {
		return &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked = r.Params
			if action == "" {
				return nil, errors.New("no")
			}
			return &sdk.ElicitResult{Action: action, Content: map[string]any{"decision": decision}}, nil
		}}
	}
	for _, tt := range []struct {
		name    string
		consent bool
		client  *sdk.ClientOptions
		want    string // the answer, or the code of the error
	}{
		{"once", true, person("accept", "once"), "1"},
		{"session", true, person("accept", "session"), "2"},
		{"no", true, person("accept", "no"), "0"},
		{"declines", true, person("decline", ""), "0"},
		{"goes away", true, person("cancel", ""), "0"},
		{"fails", true, person("", ""), "denied"},
		{"nonsense", true, person("accept", "whatever"), "denied"},
		{"nobody", true, nil, "denied"},
		{"may not", false, person("accept", "once"), "denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := connect(t, NewCopilot(f, Options{Consent: tt.consent}), tt.client)
			for _, r := range []*sdk.CallToolResult{call(t, c, ToolCodeTask, map[string]any{"prompt": "x"}), call(t, c, ToolReadFile, map[string]any{"path": "x"})} {
				got := code(r)
				if got == "" {
					out := struct{ Text, Content string }{}
					structured(t, r, &out)
					got = out.Text + out.Content
				}
				if got != tt.want {
					t.Errorf("%s, want %s: %s", got, tt.want, text(r))
				}
			}
		})
	}
	if asked == nil || asked.Message != "Consent is needed.\n```\nCopilot wants to run: make\\x1b[2J\nline one\nline two\n```" {
		t.Errorf("%+v", asked)
	}
}

// The message has all of a question, as it stands, or there is no question.
func TestConsentIsShownWhole(t *testing.T) {
	var q approval.Question
	f := &fake{task: func(ctx context.Context, task Task) (TaskResult, error) {
		answer, err := task.Asker.Ask(context.WithoutCancel(ctx), q)
		return TaskResult{Text: fmt.Sprint(answer)}, err
	}}
	var asked []string
	c := connect(t, NewCopilot(f, Options{Consent: true}), &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		asked = append(asked, r.Params.Message)
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": "once"}}, nil
	}})
	long := strings.Repeat("echo step; ", 500) + "touch evil"
	for name, tt := range map[string]struct {
		q    approval.Question
		want string // of the message; "" if it is refused
	}{
		"long":               {approval.Question{Summary: "run: echo step; …", Detail: "| " + long}, "| " + long + "\nAll of the above is one question: run: echo step; …\n```"},
		"as Markdown":        {approval.Question{Summary: "run: a", Detail: "```\n<!-- touch evil -->"}, "````\nCopilot wants to run: a\n```\n<!-- touch evil -->\n````"},
		"unseen":             {approval.Question{Summary: "run: \u202ea", Detail: "b\u200b\rc"}, `run: \u202ea` + "\n" + `b\u200b\rc`},
		"padded":             {approval.Question{Summary: "run: a", Detail: "b" + strings.Repeat("\n", 100) + "touch evil"}, "b\n(99 blank lines)\ntouch evil"},
		"too long":           {approval.Question{Summary: "run: a", Detail: strings.Repeat("ab\ncd\n", approval.MaxShown/6)}, ""},
		"too long, unseen":   {approval.Question{Summary: "run: a", Detail: strings.Repeat("\u202eab", approval.MaxShown/8)}, ""},
		"not shown at all":   {approval.Question{Summary: "write: a", Unshown: "what would be written is not said"}, ""},
		"a summary too long": {approval.Question{Summary: strings.Repeat("ab ", approval.MaxShown)}, ""},
	} {
		q, asked = tt.q, nil
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: ToolCodeTask, Arguments: map[string]any{"prompt": "x"}})
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want == "" && (len(asked) > 0 || !r.IsError):
			t.Errorf("%s: asked %.200q, %.200s", name, asked, text(r))
		case tt.want != "" && (len(asked) != 1 || !strings.Contains(asked[0], tt.want)):
			t.Errorf("%s: asked %.7000q, want %.7000q", name, asked, tt.want)
		}
	}
}

func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"openclaw_memory_search","arguments":{"query":"x","limit":3}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"openclaw_memory_read","arguments":{"file":["x"],"_depth":1e99}}}`,
		`{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, `[]`, `{`, "\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		m := memory{search: func(_ context.Context, query string, limit int) (openclaw.Found, error) {
			if query == "" || limit < 1 || limit > 50 {
				t.Errorf("searched %d for %q", limit, query)
			}
			return openclaw.Found{Hits: []openclaw.Hit{}}, nil
		}}
		const hello = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
		// Whatever comes, the server ends with its input.
		_ = NewMemory(m, allowAll{}, Options{}).Serve(t.Context(), strings.NewReader(hello+line+"\n"), io.Discard)
	})
}

// What the schemas promise holds: no list is null, at any depth.
func TestListsAreLists(t *testing.T) {
	f := &fake{task: func(context.Context, Task) (TaskResult, error) { return TaskResult{}, nil }}
	m := memory{search: func(context.Context, string, int) (openclaw.Found, error) { return openclaw.Found{}, nil }}
	var task struct{ ToolCalls, FilesChanged json.RawMessage }
	structured(t, call(t, connect(t, NewCopilot(f, Options{}), nil), ToolCodeTask, map[string]any{"prompt": "x"}), &task)
	var hits struct{ Hits json.RawMessage }
	structured(t, call(t, connect(t, NewMemory(m, allowAll{}, Options{}), nil), ToolMemorySearch, map[string]any{"query": "x"}), &hits)
	for _, list := range []json.RawMessage{task.ToolCalls, task.FilesChanged, hits.Hits} {
		if string(list) != "[]" {
			t.Errorf("%s", list)
		}
	}
	type inner struct {
		Names []string
		Raw   json.RawMessage
	}
	deep := struct{ Inner []inner }{[]inner{{}}}
	if deep = withLists(deep); deep.Inner[0].Names == nil || deep.Inner[0].Raw != nil {
		t.Errorf("%#v", deep)
	}
}
