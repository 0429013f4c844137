package toolbus

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a workspace in which tests say what a file and a command are; the
// rest answers with what it was asked.
type fake struct {
	read  func(ctx context.Context, path string) (files.Content, error)
	shell func(ctx context.Context, command string, progress Progress) (task.Result, error)
}

var errNotHere = errors.New("not in this test")

func (f *fake) Read(ctx context.Context, path string, _ files.ReadOptions) (files.Content, error) {
	if f.read == nil {
		return files.Content{Path: path, Content: "of " + path}, nil
	}
	return f.read(ctx, path)
}

func (f *fake) Files(_ context.Context, o files.ListOptions) (files.Listing, error) {
	return files.Listing{Files: o.Glob}, nil
}

func (f *fake) Search(_ context.Context, o search.Options, take search.Taker) (search.Result, error) {
	return search.Result{Truncated: !take("", []search.Hit{{Snippet: o.Query}}), Engine: search.Scanner}, nil
}

func (f *fake) Symbols(context.Context, string) ([]lsp.Symbol, error) { return nil, nil }

func (f *fake) ApplyPatch(context.Context, string, workspace.PatchOptions) (workspace.Patched, error) {
	return workspace.Patched{}, errNotHere
}

func (f *fake) Format(_ context.Context, path string) (workspace.Rewritten, error) {
	return workspace.Rewritten{Path: path}, nil
}

func (f *fake) Organize(_ context.Context, path string) (workspace.Rewritten, error) {
	return workspace.Rewritten{Path: path}, nil
}

func (f *fake) Tasks(context.Context) ([]task.Task, error) { return nil, nil }

func (f *fake) RunTask(ctx context.Context, name string, o workspace.RunOptions) (task.Result, error) {
	return f.Shell(ctx, "", name, o)
}

func (f *fake) Shell(ctx context.Context, _, command string, o workspace.RunOptions) (task.Result, error) {
	if f.shell == nil {
		o.OnOutput("stdout", "ran ")
		o.OnOutput("stderr", command)
		return task.Result{Stdout: "ran "}, nil
	}
	return f.shell(ctx, command, o.OnOutput)
}

func (f *fake) Status(context.Context) (Status, error) { return Status{Version: "1"}, nil }

// blocked is a workspace whose commands and reads wait until they are
// released, or canceled.
func blocked() (f *fake, started chan string, release chan struct{}) {
	started, release = make(chan string, 1000), make(chan struct{})
	wait := func(ctx context.Context, name string) error {
		started <- name
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return &fake{
		read: func(ctx context.Context, path string) (files.Content, error) {
			return files.Content{}, wait(ctx, path)
		},
		shell: func(ctx context.Context, command string, _ Progress) (task.Result, error) {
			return task.Result{}, wait(ctx, command)
		},
	}, started, release
}

// kept is a transport that keeps all messages.
type kept struct {
	mu  sync.Mutex
	all []string
}

func (k *kept) send(_ context.Context, message ...[]byte) error {
	k.offer(bytes.Join(message, nil))
	return nil
}

func (k *kept) notifies() bool { return true }

func (k *kept) offer(message []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, string(message))
}

func (k *kept) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.all
	k.all = nil
	return all
}

// exchange sends messages and returns all that comes back, once everything
// has been answered.
func exchange(t testing.TB, d *door, messages ...string) []string {
	t.Helper()
	to := &kept{}
	c := d.connect(context.Background(), to)
	for _, m := range messages {
		c.handle([]byte(m))
	}
	c.wait()
	c.end(nil)
	return to.take()
}
