// Package cli is the command line. It turns arguments into calls of internal/app
// and the packages below it, shows the results through package view, and maps
// errors to exit codes. Standard output carries the result; everything else goes
// to standard error. It holds no other logic. Only cmd/copilot-bridge runs it.
//
// Main is in this file. Each command has a file with its name. What they share:
// root.go (the tree, the configuration), command.go (flags, arguments, the
// shape of a command), start.go (a running bridge), interrupt.go (signals),
// paths.go (files and directories that the user names), exit.go (results,
// errors, exit codes).
package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
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

// get returns an environment variable.
func (e *Env) get(name string) string { return programs.Variable(e.Environ, name) }

// program is one run of the command line.
type program struct {
	env     Env
	scrub   *view.Scrubber
	out     *view.Output
	err     *view.Output
	console *view.Console
	log     *slog.Logger
	json    bool   // machines read what the command writes
	called  string // the command, such as "sessions list"
	warned  bool   // about the .env file
	piped   bool   // standard input was read to its end, and is not the person

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
	if e.IsTerminal == nil {
		e.IsTerminal = func(any) bool { return false }
	}
	if e.Width == nil {
		e.Width = func(any) int { return 80 }
	}
	p = &program{env: e, scrub: &view.Scrubber{}, log: slog.New(slog.DiscardHandler), defaultLevel: slog.LevelWarn, exit: e.exit}
	p.out = &view.Output{Name: "standard output", To: e.Stdout, Known: p.scrub, Failed: cancel}
	p.err = &view.Output{Name: "standard error", To: e.Stderr, Known: p.scrub, Forms: redact.New(redact.Options{}), Failed: cancel}
	p.console = p.newConsole()
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

func (p *program) newConsole() *view.Console {
	e := &p.env
	smart := e.get("TERM") != "dumb" && view.EnableEscapes(e.Stdout, e.Stderr)
	c := &view.Console{Out: p.out, Err: p.err, OutTTY: smart && e.IsTerminal(e.Stdout), ErrTTY: smart && e.IsTerminal(e.Stderr),
		Width: func() int { return e.Width(e.Stderr) }}
	c.Colour = c.ErrTTY && e.get("NO_COLOR") == ""
	return c
}

// hasKeyboard says whether there is a person to ask.
func (p *program) hasKeyboard() bool {
	stdin := p.env.IsTerminal(p.env.Stdin) || p.piped && view.HasTerminal()
	return stdin && p.env.IsTerminal(p.env.Stderr)
}

// keyboard opens the keyboard, unless the command is for machines or there is no
// terminal; nil then.
func (p *program) keyboard() *view.Keyboard {
	if p.json || !p.hasKeyboard() {
		return nil
	}
	return view.OpenKeyboard(p.console, p.env.Stdin)
}
