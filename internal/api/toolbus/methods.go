package toolbus

import (
	"context"
	"encoding/json"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

const (
	exampleSHA  = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
	exampleDiff = "--- a/hello.txt\n+++ b/hello.txt\n@@ -1 +1 @@\n-hello\n+hello, world\n"
)

// table declares every method, in the order in which rpc.discover lists them.
func (d *door) table() []method {
	ws := d.ws
	ran := task.Result{Stdout: "ok\n", DurationMs: 1200}
	all := []method{
		define("mcp.fs.read", "Read a file, or some of its lines",
			func(ctx context.Context, _ *call, p ReadParams) (files.Content, error) {
				return ws.Read(ctx, p.Path, files.ReadOptions{Offset: int(p.Offset), Limit: int(p.Limit)})
			},
			ReadParams{Path: "hello.txt"},
			files.Content{Path: "hello.txt", Content: "hello\n", Encoding: files.UTF8, LineEnding: files.LF,
				SHA256: exampleSHA, Size: 6, TotalLines: 1, Offset: 1, Lines: 1}).
			explained("Text comes as UTF-8, whatever the file's encoding; anything else as base64. sha256 is that of the whole file. redacted counts the secrets that were hidden."),
		define("mcp.fs.list", "List files",
			func(ctx context.Context, _ *call, p ListParams) (files.Listing, error) {
				l, err := ws.Files(ctx, files.ListOptions{Scope: scope(p.Glob, p.Exclude, p.Hidden), Limit: int(p.Limit)})
				l.Files = some(l.Files)
				return l, err
			},
			ListParams{Glob: Patterns{"**/*.go"}, Limit: 100},
			files.Listing{Files: []string{"cmd/main.go", "main_test.go"}}).
			explained("What .gitignore leaves out is left out. Sorted; truncated says that there are more, or that a directory could not be read or a path is too long."),
		row("mcp.search.code", "Find text in files",
			func(ctx context.Context, k *call, p SearchParams) (any, error) {
				f := &found{limit: maxFound, call: k}
				r, err := ws.Search(ctx, search.Options{Scope: scope(p.Glob, p.Exclude, p.Hidden), Query: p.Query, Regex: p.Regex, CaseSensitive: p.CaseSensitive,
					Word: p.Word, Context: int(p.Context), MaxResults: int(p.MaxResults)}, f.take)
				f.Result = r
				return f, err
			},
			SearchParams{Query: "TODO", Glob: Patterns{"*.go"}, MaxResults: 20, CaseSensitive: true},
			search.Result{Hits: []search.Hit{{File: "cmd/main.go", Line: 12, Column: 5, Snippet: "\t// TODO: flags"}}, Engine: search.Ripgrep}).
			explained("One hit a line; the column counts characters. What .gitignore leaves out is left out, and so are binary files. Which hits are returned is up to chance if there are more than maxResults, or than 256 MiB of them; truncated is then true, and so it is if not all could be searched in time."),
		define("mcp.symbols.list", "List what a file declares",
			func(ctx context.Context, _ *call, p PathParams) (Symbols, error) {
				s, err := ws.Symbols(ctx, p.Path)
				return Symbols{some(s)}, err
			},
			PathParams{Path: "cmd/main.go"},
			Symbols{[]lsp.Symbol{{Name: "main", Kind: "function", Range: lsp.Range{StartLine: 9, StartColumn: 1, EndLine: 20, EndColumn: 2},
				Selection: lsp.Range{StartLine: 9, StartColumn: 6, EndLine: 9, EndColumn: 10}}}}).
			explained("By the language's server. Without one for the file the error names what to install."),
		define("mcp.edit.applyPatch", "Apply a unified diff, all of it or none",
			func(ctx context.Context, _ *call, p PatchParams) (workspace.Patched, error) {
				r, err := ws.ApplyPatch(ctx, p.UnifiedDiff, workspace.PatchOptions{Verify: p.Verify, DryRun: p.DryRun, Format: p.Format, Organize: p.OrganizeImports})
				r.Files, r.Conflicts = some(r.Files), some(r.Conflicts)
				return r, err
			},
			PatchParams{UnifiedDiff: exampleDiff, Verify: Verify{"hello.txt": exampleSHA}, DryRun: true},
			workspace.Patched{Result: patch.Result{OK: true, DryRun: true, Conflicts: []patch.Conflict{}, Files: []patch.FileChange{{Path: "hello.txt",
				Status: patch.StatusModified, Mode: "100644", Additions: 1, Deletions: 1}}}}).
			explained("The rules are those of git apply. A diff that does not fit is no error: ok is then false, conflicts says why, and every file is as it was."),
		define("mcp.format.apply", "Format a file",
			func(ctx context.Context, _ *call, p PathParams) (workspace.Rewritten, error) {
				return ws.Format(ctx, p.Path)
			},
			PathParams{Path: "cmd/main.go"}, workspace.Rewritten{OK: true, Path: "cmd/main.go", Changed: true, SHA256: exampleSHA}),
		define("mcp.imports.organize", "Organise the imports of a file",
			func(ctx context.Context, _ *call, p PathParams) (workspace.Rewritten, error) {
				return ws.Organize(ctx, p.Path)
			},
			PathParams{Path: "cmd/main.go"}, workspace.Rewritten{OK: true, Path: "cmd/main.go", SHA256: exampleSHA}),
		define("mcp.task.list", "List the tasks that the workspace declares",
			func(ctx context.Context, _ *call, _ none) (Tasks, error) {
				t, err := ws.Tasks(ctx)
				out := Tasks{Tasks: some(t)}
				if err != nil {
					out.Problems = append(out.Problems, err.Error())
				}
				return out, ctx.Err()
			},
			none{}, Tasks{Tasks: []task.Task{{Name: "make:test", Label: "test", Source: task.SourceMake, Command: []string{"make", "test"}, Runnable: true}}}),
		define("mcp.task.run", "Run a task",
			func(ctx context.Context, c *call, p TaskParams) (task.Result, error) {
				return ws.RunTask(ctx, p.Name, workspace.RunOptions{Timeout: milliseconds(p.TimeoutMs), Args: p.Args, OnOutput: c.progress(ctx)})
			},
			TaskParams{Name: "make:test", TimeoutMs: 60000}, ran).
			explained("The output comes as bridge.progress notifications, and again with the result. A task that fails is no error: see exitCode and timedOut."),
		define("mcp.shell.run", "Run a line of the shell",
			func(ctx context.Context, c *call, p ShellParams) (task.Result, error) {
				return ws.Shell(ctx, p.Folder, p.Cmd, workspace.RunOptions{Timeout: milliseconds(p.TimeoutMs), OnOutput: c.progress(ctx)})
			},
			ShellParams{Cmd: "go vet ./..."}, ran).
			explained("Only if the policy allows it. The output comes as with mcp.task.run."),
		define("bridge.status", "Tell of the bridge and its workspace",
			func(ctx context.Context, _ *call, _ none) (Status, error) { return ws.Status(ctx) },
			none{}, Status{Version: "1.0.0", URL: "http://127.0.0.1:8788", RPC: "ws://127.0.0.1:8788/rpc", Workspace: "/home/me/src/app", ReadOnly: true, Copilot: "ok", Search: search.Ripgrep}),
	}
	if d.opts.Hub != nil {
		all = append(append(all, d.approvals()...), d.sessions()...)
	}
	cancel := define("$/cancelRequest", "Cancel a request of this connection",
		func(_ context.Context, c *call, p cancelParams) (*none, error) {
			if !isID(p.ID) {
				return nil, wire.At("params.id", "expected a string or a number, got %s", wire.KindOf(p.ID))
			}
			c.conn.cancelCall(p.ID)
			return nil, nil
		}, cancelParams{ID: json.RawMessage("7")}, nil).atOnce()
	cancel.result = nil
	discover := define("rpc.discover", "Return this document",
		func(context.Context, *call, none) (json.RawMessage, error) { return d.discover() },
		none{}, json.RawMessage(`{}`)).atOnce()
	return append(all, cancel, discover)
}

func milliseconds(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }

func scope(glob, exclude Patterns, hidden bool) files.Scope {
	return files.Scope{Glob: glob, Exclude: exclude, Hidden: hidden}
}

// some makes an empty list of none, which JSON would write as null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type cancelParams struct {
	ID json.RawMessage `json:"id" jsonschema:"that of the request"`
}

type progressParams struct {
	ID     json.RawMessage `json:"id" jsonschema:"that of the request"`
	Stream string          `json:"stream" jsonschema:"stdout or stderr"`
	Text   string          `json:"text" jsonschema:"what is new"`
}

type subscribeParams struct {
	Own    bool `json:"own,omitempty" jsonschema:"only questions about requests of this connection"`
	Agents bool `json:"agents,omitempty" jsonschema:"also what agents ask; for clients that can show forms"`
}

type answerParams struct {
	ID     string `json:"id" jsonschema:"that of the question"`
	Answer string `json:"answer" enum:"once,session,always,no" jsonschema:"whether it may happen: this time, also the very same thing again in this session, always by the rules of the question, or not"`
	SHA256 string `json:"sha256,omitempty" jsonschema:"that of the question: the answer then counts for nothing else"`
}

// Subscribed answers bridge.approvals.subscribe.
type Subscribed struct {
	Open      []Approval `json:"open"` // questions that wait already
	Questions []Question `json:"questions,omitempty" jsonschema:"questions of agents that wait already"`
}

// approvals are the methods for clients that let a person decide.
func (d *door) approvals() []method {
	question := Approval{ID: "K7W3Q", Summary: "run: npm test", Kind: bridge.PermissionShell}
	return []method{
		define("bridge.approvals.subscribe", "Have questions of consent put to this connection",
			func(_ context.Context, c *call, p subscribeParams) (Subscribed, error) {
				return c.conn.subscribe(d.opts.Hub, p)
			},
			subscribeParams{Own: true}, Subscribed{Open: []Approval{question}}).atOnce().
			explained("Whoever subscribes shows the questions to a person. They come as bridge.approval.requested, and those that wait already with the result; bridge.approval.closed says that one needs no answer any more. With agents, what an agent asks comes as bridge.question.requested and bridge.question.closed. Not over HTTP POST."),
		define("bridge.approval.answer", "Answer a question of consent",
			func(_ context.Context, c *call, p answerParams) (none, error) {
				said := map[string]approval.Consent{"once": approval.Once, "session": approval.Session, "always": approval.Always, "no": approval.No}[p.Answer]
				return none{}, d.opts.Hub.answer(c.conn, p.ID, p.SHA256, said)
			},
			answerParams{ID: question.ID, Answer: "once"}, none{}).atOnce().
			explained("The first answer counts."),
		define("bridge.question.answer", "Answer a question of an agent",
			func(_ context.Context, c *call, p replyParams) (none, error) {
				return none{}, d.opts.Hub.reply(c.conn, p)
			},
			replyParams{ID: question.ID, Action: "accept", Content: map[string]any{"answer": "green"}}, none{}).atOnce().
			explained("The first answer counts. Agents that begin to work when nobody has subscribed to their questions do not ask."),
	}
}

// subscribe joins the connection to a hub, once.
func (c *conn) subscribe(h *Hub, p subscribeParams) (Subscribed, error) {
	if !c.to.notifies() {
		return Subscribed{}, &bridge.Error{Code: bridge.CodeUnsupported, Message: "questions cannot be put over HTTP POST", Remedy: "connect a WebSocket"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return Subscribed{}, context.Cause(c.ctx)
	}
	open, leave := h.subscribe(c, subscriber{c.to, p.Own, p.Agents})
	c.leave = leave
	return open, nil
}
