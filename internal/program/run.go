package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// pipeGrace bounds the wait for output that is held open by what left the
// process group.
const pipeGrace = time.Second

// RunOptions are what a run needs besides the command.
type RunOptions struct {
	Stdin []byte // nothing by default
	// In, if set, is given to the program itself in place of Stdin, from where it
	// stands. It stays the caller's.
	In *os.File
	// Stdout and Stderr get the output as it comes, each from a goroutine of
	// its own; they bound their size. A file is given to the program itself
	// and stays the caller's. nil: the output is thrown away.
	Stdout, Stderr io.Writer
	// Grace is how long the program may take to end by itself when ctx ends,
	// after a polite signal, which it also gets if the bridge is killed (on
	// Linux). 0: it is killed at once, and with the bridge.
	Grace time.Duration
	// Trees, if set, runs it under a supervisor.
	Trees Trees
	// Started, if set, is called with the process id as soon as there is one.
	Started func(pid int)
}

// Exit is how a program ended.
type Exit struct {
	Code   int    // 128 and the signal's number if one ended it
	Signal string // its name
}

// Err is nil for a program that ended well.
func (e Exit) Err() error {
	switch {
	case e.Signal != "":
		return errors.New("ended by " + e.Signal)
	case e.Code != 0:
		return fmt.Errorf("exit status %d", e.Code)
	}
	return nil
}

// Run runs the program to its end. That it failed is no error: Exit tells.
// When ctx ends, the program is ended with all of its group, and Run returns
// the context's cause along with how it ended.
func (c Command) Run(ctx context.Context, o RunOptions) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	complaint := &Head{Limit: 1 << 10}
	if c.outer != nil {
		if o.Stderr == nil {
			o.Stderr = complaint
		} else {
			o.Stderr = io.MultiWriter(complaint, o.Stderr)
		}
	}
	p, err := newPipes(o)
	if err != nil {
		return Exit{}, fmt.Errorf("run %s: %w", c.Path, err)
	}
	g, err := c.start(p.streams, o.Trees, o.Grace > 0)
	p.started(err == nil)
	if err != nil {
		return Exit{}, err
	}
	if o.Started != nil {
		o.Started(g.PID())
	}
	select {
	case <-g.Done():
	case <-ctx.Done():
		if o.Grace > 0 {
			err = g.End(context.WithoutCancel(ctx), o.Grace)
		} else {
			err = g.Kill()
		}
	}
	p.finish()
	if err != nil {
		return Exit{}, fmt.Errorf("end %s: %w", c.Path, err)
	}
	var exit Exit
	exit.Code, exit.Signal = g.Exit()
	if ctx.Err() != nil {
		return exit, context.Cause(ctx)
	}
	if exit.Code != 0 && c.outer != nil && strings.HasPrefix(complaint.String(), c.outer.Complaint) {
		line, _, _ := strings.Cut(complaint.String(), "\n")
		return exit, c.outer.failed(line)
	}
	var failed *exec.ExitError
	if err := g.Err(); err != nil && !errors.As(err, &failed) {
		return exit, fmt.Errorf("wait for %s: %w", c.Path, err)
	}
	return exit, nil
}

// failed is the error of an outer program that did not start the inner one.
func (o *Outer) failed(why string) error {
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the command was not run, because its sandbox could not be set up: " + why,
		Remedy: "Run `copilot-bridge validate`: it tries the sandbox and says what is missing."}
}

// pipes are the streams of one run.
type pipes struct {
	streams Streams
	theirs  []*os.File // to close when it has started
	mine    []*os.File
	into    []io.Writer
	input   string // temporary file to remove, if any
	wg      sync.WaitGroup
}

func newPipes(o RunOptions) (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.started(false)
		}
	}()
	for _, s := range []struct {
		into   io.Writer
		theirs **os.File
	}{{o.Stdout, &p.streams.Out}, {o.Stderr, &p.streams.Err}} {
		if f, ok := s.into.(*os.File); ok || s.into == nil {
			*s.theirs = f
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return p, err
		}
		p.mine, p.into, p.theirs, *s.theirs = append(p.mine, r), append(p.into, s.into), append(p.theirs, w), w
	}
	if p.streams.In = o.In; o.In == nil && len(o.Stdin) > 0 {
		err = p.feed(o.Stdin)
	}
	return p, err
}

// feed puts the input into a file: a supervisor would take the end of a pipe
// for the end of the bridge.
func (p *pipes) feed(input []byte) error {
	f, err := os.CreateTemp("", "copilot-bridge-input-")
	if err != nil {
		return err
	}
	p.streams.In, p.theirs, p.input = f, append(p.theirs, f), f.Name()
	if runtime.GOOS != "windows" { // where it can only go once it is closed everywhere
		p.removeInput() // at once, so that a kill does not leave it
	}
	if _, err := f.Write(input); err != nil {
		return err
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// started closes the program's ends of the pipes and copies its output, or
// closes everything if there is no program.
func (p *pipes) started(ok bool) {
	for _, f := range p.theirs {
		_ = f.Close() // the program has its own copy
	}
	if !ok {
		p.removeInput()
	}
	for i, f := range p.mine {
		if !ok {
			_ = f.Close() // nothing was written
			continue
		}
		p.wg.Go(func() { // its end, or the deadline, ends it
			if _, err := io.Copy(p.into[i], f); errors.Is(err, os.ErrDeadlineExceeded) {
				copyWaiting(p.into[i], f)
			}
		})
	}
}

// finish waits for the rest of the output. Something that left the process
// group may hold the pipes for ever, so the wait is short. What is in a pipe by
// then is read all the same: this process may have been the one that was slow.
func (p *pipes) finish() {
	deadline := time.Now().Add(pipeGrace)
	for _, f := range p.mine {
		if f.SetDeadline(deadline) != nil {
			_ = f.Close() // cannot happen to a pipe; if it does, do not hang
		}
	}
	p.wg.Wait()
	for _, f := range p.mine {
		_ = f.Close() // it was only read
	}
	p.removeInput()
}

// removeInput is best effort: what stays is in the system's temporary
// directory, for this user's eyes only.
func (p *pipes) removeInput() {
	if p.input != "" {
		_ = os.Remove(p.input) // in the temporary directory, and readable by the user alone
		p.input = ""
	}
}

// Piped is a running program and our ends of its standard streams.
type Piped struct {
	*Group
	In, Out, Err *os.File
}

// Pipe starts the program with pipes for all of its streams, which the caller
// closes.
func (c Command) Pipe(trees Trees) (*Piped, error) {
	var files []*os.File
	closeAll := func(which ...int) {
		for _, i := range which {
			if i < len(files) {
				_ = files[i].Close() // nothing was written, or the program has its own copy
			}
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(0, 1, 2, 3)
			return nil, err
		}
		files = append(files, r, w)
	}
	g, err := c.Start(Streams{In: files[0], Out: files[3], Err: files[5]}, trees)
	closeAll(0, 3, 5)
	if err != nil {
		closeAll(1, 2, 4)
		return nil, err
	}
	return &Piped{Group: g, In: files[1], Out: files[2], Err: files[4]}, nil
}

// Head keeps the first bytes written to it. Truncated says that there were
// more. It is used by one goroutine at a time.
type Head struct {
	Limit     int
	Truncated bool
	kept      []byte
}

func (h *Head) Write(p []byte) (int, error) {
	room := min(len(p), h.Limit-len(h.kept))
	h.kept = append(h.kept, p[:room]...)
	h.Truncated = h.Truncated || room < len(p)
	return len(p), nil
}

// Bytes are the kept output.
func (h *Head) Bytes() []byte { return h.kept }

// String is the kept output as text.
func (h *Head) String() string { return strings.ToValidUTF8(string(h.kept), "") }

// Tail keeps the last bytes written to it. It may be used concurrently.
type Tail struct {
	Limit int
	mu    sync.Mutex
	kept  []byte
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-t.Limit):]...)
	t.kept = t.kept[max(0, len(t.kept)-t.Limit):]
	return len(p), nil
}

// String is the kept output as text.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "")
}
