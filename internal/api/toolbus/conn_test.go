package toolbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// ask is a request of the method read, which waits in blocked workspaces.
func ask(id, path string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"mcp.fs.read","params":{"path":%q}}`, id, path)
}

// outcomes shows answers as "id: code", 0 for a result, sorted.
func outcomes(t *testing.T, messages []string) string {
	t.Helper()
	var out []string
	for _, m := range messages {
		all, _ := normal(t, m)
		for _, r := range all {
			code := 0
			if r.Error != nil {
				code = r.Error.Code
			}
			out = append(out, fmt.Sprintf("%s: %d", r.ID, code))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestRequestsRunSideBySideUpToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, started, release := blocked()
		to := &kept{}
		c := newDoor(f, Options{MaxConcurrent: 2, MaxQueued: 1}).connect(t.Context(), to)
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			c.handle([]byte(ask(id, "x")))
		}
		synctest.Wait()
		if len(started) != 2 {
			t.Errorf("%d run, want 2", len(started))
		}
		if got := outcomes(t, to.take()); got != "4: -32001, 5: -32001" {
			t.Errorf("got %s", got)
		}
		// What steers the others does not wait for them.
		c.handle([]byte(`{"jsonrpc":"2.0","id":6,"method":"rpc.discover"}`))
		if got := outcomes(t, to.take()); got != "6: 0" {
			t.Errorf("got %s", got)
		}
		close(release)
		c.wait()
		if got := outcomes(t, to.take()); got != "1: 0, 2: 0, 3: 0" {
			t.Errorf("got %s", got)
		}
		c.handle([]byte(ask("7", "x")))
		c.wait()
		if got := outcomes(t, to.take()); got != "7: 0" {
			t.Errorf("when all are done: %s", got)
		}
	})
}

func TestBusyByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, started, release := blocked()
		to := &kept{}
		c := newDoor(f, Options{MaxMessage: 100}).connect(t.Context(), to)
		for i := range 5 {
			c.handle([]byte(ask(fmt.Sprint(i), strings.Repeat("x", 85))))
		}
		synctest.Wait()
		if got := outcomes(t, to.take()); len(started) != 4 || got != "4: -32001" {
			t.Errorf("%d run, got %s", len(started), got)
		}
		close(release)
		c.wait()
	})
}

// A batch on an idle connection always runs, however large it may be.
func TestBatchesWaitForTheirTurn(t *testing.T) {
	f, _, release := blocked()
	close(release)
	var all []string
	for i := range 100 {
		all = append(all, ask(fmt.Sprint(1000+i), "x"))
	}
	got := exchange(t, newDoor(f, Options{}), "["+strings.Join(all, ",")+"]")
	if len(got) != 1 || strings.Count(outcomes(t, got), ": 0") != 100 {
		t.Errorf("got %s", got)
	}
}

func TestCancel(t *testing.T) {
	cancel := func(id string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%s}}`, id)
	}
	for _, tt := range []struct {
		name string
		sent []string
		want string // before the rest is released
		rest string
	}{
		{"by number", []string{ask("1", "a"), ask("2", "b"), cancel("1")}, "1: -32800", "2: 0"},
		{"by string, escaped otherwise", []string{ask(`"\u0061"`, "a"), cancel(`"a"`)}, `"\u0061": -32800`, ""},
		{"a string is no number", []string{ask("1", "a"), cancel(`"1"`)}, "", "1: 0"},
		{"null is nobody's name", []string{ask("null", "a"), cancel("null")}, "", "null: 0"},
		{"one that waits for its turn", []string{ask("1", "a"), ask("2", "b"), ask("3", "c"), cancel("3")}, "3: -32800", "1: 0, 2: 0"},
		{"one that never was", []string{cancel("9"), ask("9", "a")}, "", "9: 0"},
		{"two with one id", []string{ask("1", "a"), ask("1", "b"), cancel("1")}, "1: -32800, 1: -32800", ""},
		{"all of a batch", []string{"[" + ask("1", "a") + "," + ask("2", "b") + "," + cancel("1") + "," + cancel("2") + "]"}, "1: -32800, 2: -32800", ""},
		{"some of a batch", []string{"[" + ask("1", "a") + "," + ask("2", "b") + "]", cancel("1")}, "", "1: -32800, 2: 0"},
		{"as a request", []string{ask("1", "a"), `{"jsonrpc":"2.0","id":5,"method":"$/cancelRequest","params":{"id":1}}`}, "1: -32800, 5: 0", ""},
		{"without an id", []string{ask("1", "a"), `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{}}`}, "", "1: 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _, release := blocked()
				to := &kept{}
				c := newDoor(f, Options{MaxConcurrent: 2}).connect(t.Context(), to)
				for _, m := range tt.sent {
					c.handle([]byte(m))
					if !strings.Contains(m, "cancel") {
						synctest.Wait()
					}
				}
				synctest.Wait()
				if got := outcomes(t, to.take()); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				close(release)
				c.wait()
				if got := outcomes(t, to.take()); got != tt.rest {
					t.Errorf("then got %q, want %q", got, tt.rest)
				}
			})
		})
	}
}

// The end of a connection ends its calls, with the reason as their answer.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := blocked()
		to := &kept{}
		c := newDoor(f, Options{MaxConcurrent: 1}).connect(t.Context(), to)
		c.handle([]byte(ask("1", "a")))
		c.handle([]byte(ask("2", "b"))) // waits
		synctest.Wait()
		c.end(&bridge.Error{Code: bridge.CodeUnavailable, Message: "closing time", Remedy: "tomorrow"})
		c.handle([]byte(ask("3", "c")))
		c.wait()
		got := to.take()
		if outcomes(t, got) != "1: -32015, 2: -32015, 3: -32015" {
			t.Errorf("got %s", got)
		}
		for _, m := range got {
			if !strings.Contains(m, `"message":"closing time"`) || !strings.Contains(m, `"remedy":"tomorrow"`) {
				t.Errorf("no reason in %s", m)
			}
		}
	})
}

func TestWhyACallEnded(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(&bridge.Error{Code: bridge.CodeUnavailable, Message: "stopping"})
	for _, tt := range []struct {
		ctx     context.Context
		err     error
		code    int
		message string
	}{
		{t.Context(), context.Canceled, jsonrpc.CodeCanceled, "the request was canceled"},
		{t.Context(), context.DeadlineExceeded, codeOf(bridge.CodeTimeout), "time ran out"},
		{t.Context(), &bridge.Error{Code: bridge.CodeTimeout, Message: "gopls took too long"}, codeOf(bridge.CodeTimeout), "gopls took too long"},
		{t.Context(), errors.New("at /home/me"), jsonrpc.CodeInternal, "Internal error"},
		{t.Context(), &bridge.Error{Code: bridge.CodeInternal, Message: "the disk", Cause: errors.New("is full")}, jsonrpc.CodeInternal, "the disk: is full"},
		{canceled, context.Canceled, codeOf(bridge.CodeUnavailable), "stopping"},
		{canceled, fmt.Errorf("searching: %w", context.Canceled), codeOf(bridge.CodeUnavailable), "stopping"},
		{canceled, &bridge.Error{Code: bridge.CodeCanceled, Message: "killed"}, codeOf(bridge.CodeUnavailable), "stopping"},
		{canceled, &bridge.Error{Code: bridge.CodeNotFound, Message: "no x"}, codeOf(bridge.CodeNotFound), "no x"},
	} {
		if f := faultOf(tt.ctx, tt.err); f.Code != tt.code || f.Message != tt.message {
			t.Errorf("%v: got %d %q, want %d %q", tt.err, f.Code, f.Message, tt.code, tt.message)
		}
	}
}

func TestProgressComesBeforeTheAnswer(t *testing.T) {
	d := newDoor(&fake{}, Options{})
	got := exchange(t, d, `{"jsonrpc":"2.0","id":"a<b","method":"mcp.shell.run","params":{"cmd":"<x>"}}`)
	want := []string{
		`{"jsonrpc":"2.0","method":"bridge.progress","params":{"id":"a<b","stream":"stdout","text":"ran "}}`,
		`{"jsonrpc":"2.0","method":"bridge.progress","params":{"id":"a<b","stream":"stderr","text":"<x>"}}`,
	}
	if len(got) != 3 || !slices.Equal(got[:2], want) || outcomes(t, got[2:]) != `"a<b": 0` {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
	if got := exchange(t, d, `{"jsonrpc":"2.0","method":"mcp.task.run","params":{"name":"x"}}`); len(got) > 0 {
		t.Errorf("a notification was answered: %s", got)
	}
}

// Every method reaches the workspace with its parameters.
func TestMethods(t *testing.T) {
	d := newDoor(&fake{}, Options{})
	for _, tt := range []struct{ method, params, want string }{
		{"mcp.fs.read", `{"path":"a"}`, `"content":"of a"`},
		{"mcp.fs.list", `{"glob":"*.go","limit":3}`, `{"files":["*.go"],"truncated":false}`},
		{"mcp.search.code", `{"query":"q","maxResults":1}`, `"snippet":"q"`},
		{"mcp.symbols.list", `{"path":"a"}`, `{"symbols":[]}`},
		{"mcp.format.apply", `["a"]`, `{"ok":false,"path":"a","changed":false,"sha256":""}`},
		{"mcp.imports.organize", `{"path":"a"}`, `{"ok":false,"path":"a","changed":false,"sha256":""}`},
		{"mcp.task.list", `{}`, `{"tasks":[]}`},
		{"mcp.task.run", `{"name":"make:x","args":["y"]}`, `"stdout":"ran "`},
		{"mcp.shell.run", `{"cmd":"x"}`, `"stdout":"ran "`},
		{"bridge.status", `{}`, `"version":"1"`},
	} {
		got := exchange(t, d, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":`+tt.params+`}`)
		var r response
		if err := json.Unmarshal([]byte(got[len(got)-1]), &r); err != nil || r.Result == nil || !strings.Contains(string(*r.Result), tt.want) {
			t.Errorf("%s: got %s, want %s", tt.method, got, tt.want)
		}
	}
}
