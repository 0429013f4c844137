// Package cli is the command line: one file for each command. It turns
// arguments into calls of internal/app and the packages below it, shows the
// results to people or as JSON, and maps errors to exit codes. Standard output
// carries the result; everything else goes to standard error. It holds no other
// logic. Only cmd/copilot-bridge runs it.
package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	programs "github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// Env is everything that the program gets from outside, so that a test can
// call it with its own streams.
type Env struct {
	Args       []string // the program's name first
	Stdin      io.Reader
	Stdout     io.Writer
	Stderr     io.Writer
	Environ    []string // as os.Environ returns it
	Dir        string   // the working directory; "" for the process's own
	HomeDir    string   // the user's; "" if there is none
	Executable string   // the program itself, which also supervises the runtime
	// IsTerminal and Width describe one of the three streams; a nil function
	// says that none is a terminal.
	IsTerminal func(stream any) bool
	Width      func(stream any) int

	signals <-chan os.Signal // in place of the process's, for tests
	exit    func(code int)   // in place of os.Exit, for tests
}

// System is the Env of this process. What cannot be found out stays empty and
// is reported by the command that needs it.
func System() Env {
	e := Env{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(),
		IsTerminal: func(stream any) bool {
			f, ok := stream.(*os.File)
			return ok && term.IsTerminal(int(f.Fd()))
		},
		Width: func(stream any) int {
			if f, ok := stream.(*os.File); ok {
				if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
					return w
				}
			}
			return 80
		},
	}
	e.Dir, _ = os.Getwd()
	e.HomeDir, _ = os.UserHomeDir()
	e.Executable, _ = os.Executable()
	return e
}

func (e *Env) isTerminal(stream any) bool { return e.IsTerminal != nil && e.IsTerminal(stream) }

// get returns an environment variable.
func (e *Env) get(name string) string { return programs.Variable(e.Environ, name) }

// program is one run of the command line.
type program struct {
	env     Env
	scrub   *scrubber
	out     *stream
	err     *stream
	console *console
	log     *slog.Logger
	warned  bool // about the .env file

	defaultLevel slog.Level // of logging, where no setting says otherwise

	signals  <-chan os.Signal // nil until listen
	unlisten func()
	exit     func(code int)
}

// Main runs the program and returns its exit code.
func Main(e Env) int {
	// The supervisor is this binary too. It comes first: it must be quick and
	// depend on nothing that could be misconfigured.
	if len(e.Args) > 1 && e.Args[1] == supervise.Verb {
		return supervise.Main(e.Args[2:], e.Stderr)
	}
	programs.KeepFiles()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	p, stop := newProgram(e, cancel)
	defer stop()
	root := p.root()
	err := root.ExecuteContext(ctx)
	return p.finish(err)
}

// newProgram connects the streams. cancel is called when one of the outputs
// can no longer be written to.
func newProgram(e Env, cancel context.CancelCauseFunc) (p *program, stop func()) {
	p = &program{env: e, scrub: &scrubber{}, log: slog.New(slog.DiscardHandler), defaultLevel: slog.LevelWarn, exit: e.exit}
	p.out = &stream{name: "standard output", w: e.Stdout, scrub: p.scrub, fail: cancel}
	p.err = &stream{name: "standard error", w: e.Stderr, scrub: p.scrub, forms: redact.New(redact.Options{}), fail: cancel}
	p.console = newConsole(p)
	if p.exit == nil {
		p.exit = os.Exit
	}
	// Without this the first write to a pipe without a reader would kill the
	// process on the spot. A handler, unlike ignoring it, is not inherited.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	p.signals = e.signals
	return p, func() {
		signal.Stop(pipe)
		if p.unlisten != nil {
			p.unlisten()
		}
	}
}
