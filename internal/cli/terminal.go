package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// keyboard is the person at the terminal. While one of their questions is on
// the screen nothing else is written to it.
type keyboard struct {
	c    *console
	term *approval.Terminal
	file *os.File // nil if it is not ours to close
}

// hasKeyboard says whether there is a person to ask.
func (p *program) hasKeyboard() bool {
	return p.env.isTerminal(p.env.Stdin) && p.env.isTerminal(p.env.Stderr)
}

// keyboardUnless opens the keyboard, unless the command is for machines or
// there is no terminal; nil then.
func (p *program) keyboardUnless(machines bool) *keyboard {
	if machines || !p.hasKeyboard() {
		return nil
	}
	return p.openKeyboard()
}

func (p *program) openKeyboard() *keyboard {
	k := &keyboard{c: p.console, term: &approval.Terminal{In: p.env.Stdin, Out: p.err}}
	// The terminal opened anew can be read with a deadline, which standard
	// input cannot.
	if _, ok := p.env.Stdin.(*os.File); ok {
		if f, err := os.OpenFile(terminalFile, os.O_RDONLY, 0); err == nil {
			k.file, k.term.In = f, f
			k.term.Drain = func() { drain(f) }
		}
	}
	return k
}

// close ends the reading; k may be nil.
func (k *keyboard) close() {
	if k == nil {
		return
	}
	_ = k.term.Close()
	if k.file != nil {
		_ = k.file.Close()
	}
}

// alone runs ask while nothing else is written to the terminal.
func alone[T any](k *keyboard, ask func() (T, error)) (T, error) {
	k.c.pause()
	defer k.c.resume()
	return ask()
}

// line reads one line; io.EOF at the end of input.
func (k *keyboard) line(ctx context.Context, prompt string) (string, error) {
	return alone(k, func() (string, error) { return k.term.Line(ctx, prompt) })
}

// asker and person are the keyboard's two faces.
type (
	asker struct {
		*keyboard
		// shown gets a value when the view has come to a question; nil if
		// there is no view.
		shown <-chan struct{}
	}
	person struct{ *keyboard }
)

// catchUp is how long a question waits for the words before it to be shown.
// They come by another way and may be a moment behind.
const catchUp = 500 * time.Millisecond

func (a asker) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	if a.shown != nil {
		late := time.NewTimer(catchUp)
		defer late.Stop()
		select {
		case <-a.shown:
		case <-late.C:
		case <-ctx.Done():
		}
	}
	return alone(a.keyboard, func() (approval.Answer, error) { return a.term.Ask(ctx, q) })
}

func (p person) Ask(ctx context.Context, q bridge.Question) (bridge.Answer, error) {
	return alone(p.keyboard, func() (bridge.Answer, error) { return p.term.Person().Ask(ctx, q) })
}

func (p person) Elicit(ctx context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	return alone(p.keyboard, func() (bridge.ElicitationAnswer, error) { return p.term.Person().Elicit(ctx, e) })
}

// confirm asks a yes-or-no question; the end of input is a no.
func (k *keyboard) confirm(ctx context.Context, question string) (bool, error) {
	text, err := k.line(ctx, question+" [y/N] ")
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	text = strings.ToLower(strings.TrimSpace(text))
	return text == "y" || text == "yes", err
}
