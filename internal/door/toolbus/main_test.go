package toolbus

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a workspace in which tests say what a file and a command are; the
// rest answers with what it was asked.
type fake struct {
	read  func(ctx context.Context, p ReadParams) (Content, error)
	shell func(ctx context.Context, p ShellParams, progress Progress) (task.Result, error)
}

var errNotHere = errors.New("not in this test")

func (f *fake) Read(ctx context.Context, p ReadParams) (Content, error) {
	if f.read == nil {
		return Content{Content: files.Content{Path: p.Path, Content: "of " + p.Path}}, nil
	}
	return f.read(ctx, p)
}

func (f *fake) List(_ context.Context, p ListParams) (files.Listing, error) {
	return files.Listing{Files: p.Glob}, nil
}

func (f *fake) Search(_ context.Context, p SearchParams, take search.Taker) (search.Result, error) {
	return search.Result{Truncated: !take("", []search.Hit{{Snippet: p.Query}}), Engine: search.Scanner}, nil
}

func (f *fake) Symbols(context.Context, PathParams) (Symbols, error) { return Symbols{}, nil }

func (f *fake) ApplyPatch(context.Context, PatchParams) (Patched, error) {
	return Patched{}, errNotHere
}

func (f *fake) Format(_ context.Context, p PathParams) (Rewritten, error) {
	return Rewritten{Path: p.Path}, nil
}

func (f *fake) Organize(_ context.Context, p PathParams) (Rewritten, error) {
	return Rewritten{Path: p.Path}, nil
}

func (f *fake) Tasks(context.Context) (Tasks, error) { return Tasks{}, nil }

func (f *fake) RunTask(ctx context.Context, p TaskParams, progress Progress) (task.Result, error) {
	return f.Shell(ctx, ShellParams{Cmd: p.Name}, progress)
}

func (f *fake) Shell(ctx context.Context, p ShellParams, progress Progress) (task.Result, error) {
	if f.shell == nil {
		progress("stdout", "ran ")
		progress("stderr", p.Cmd)
		return task.Result{Stdout: "ran "}, nil
	}
	return f.shell(ctx, p, progress)
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
		read: func(ctx context.Context, p ReadParams) (Content, error) { return Content{}, wait(ctx, p.Path) },
		shell: func(ctx context.Context, p ShellParams, _ Progress) (task.Result, error) {
			return task.Result{}, wait(ctx, p.Cmd)
		},
	}, started, release
}

// kept is a transport that keeps what is sent.
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
