package view

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

// Keyboard is the person at the terminal. While one of their questions is on
// the screen nothing else is written to it. A nil Keyboard asks nobody.
type Keyboard struct {
	c    *Console
	term *approval.Terminal
	file *os.File // nil if it is not ours to close

	prompt *Prompt // nil as long as only questions are asked
}

// OpenKeyboard asks on a console and reads the answers from in.
func OpenKeyboard(c *Console, in io.Reader) *Keyboard {
	k := &Keyboard{c: c, term: &approval.Terminal{In: in, Out: c.Err}}
	// The terminal opened anew can be read with a deadline, which standard
	// input cannot.
	if _, ok := in.(*os.File); ok {
		if f, err := os.OpenFile(terminalFile, os.O_RDONLY, 0); err == nil {
			k.file, k.term.In, k.term.Wipes = f, f, c.ErrTTY
			k.term.Drain = func() { drain(f) }
		}
	}
	return k
}

// HasTerminal says whether the process has a terminal, whatever its standard
// input is.
func HasTerminal() bool {
	f, err := os.OpenFile(terminalFile, os.O_RDONLY, 0)
	return err == nil && f.Close() == nil
}

// Close ends the reading.
func (k *Keyboard) Close() {
	if k == nil {
		return
	}
	if k.prompt != nil {
		k.prompt.close()
		k.prompt = nil
	}
	_ = k.term.Close()
	if k.file != nil {
		_ = k.file.Close()
	}
}

// alone runs ask while nothing else is written to the terminal.
func alone[T any](k *Keyboard, ask func() (T, error)) (T, error) {
	k.c.pause()
	defer k.c.resume()
	return ask()
}

// Line reads one line; io.EOF at the end of input.
func (k *Keyboard) Line(ctx context.Context, prompt string) (string, error) {
	return alone(k, func() (string, error) { return k.term.Line(ctx, prompt) })
}

// Hidden is Line for a secret, which the terminal does not show.
func (k *Keyboard) Hidden(ctx context.Context, prompt string) (string, error) {
	show, ok := func() {}, k.file == nil // what is no terminal shows nothing
	if !ok {
		show, ok = hideInput(k.file)
	}
	if !ok {
		return "", &bridge.Error{Code: bridge.CodeUnsupported, Message: "this terminal cannot hide what you type", Remedy: "give it from a file or another program, on standard input"}
	}
	defer show()
	text, err := k.Line(ctx, prompt)
	k.c.Line("")
	return text, err
}

// Confirm asks a yes-or-no question; the end of input is a no.
func (k *Keyboard) Confirm(ctx context.Context, question string) (bool, error) {
	text, err := k.Line(ctx, question+" [y/N] ")
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	text = strings.ToLower(strings.TrimSpace(text))
	return text == "y" || text == "yes", err
}

// Asker puts questions of the guard. Those about a turn come after the words
// that a, which may be nil, shows before them.
func (k *Keyboard) Asker(a *Activity) approval.Asker {
	if k == nil {
		return approval.Nobody{}
	}
	return asker{k, a}
}

// Person puts the questions of a model.
func (k *Keyboard) Person() bridge.Person {
	if k == nil {
		return nil
	}
	return person{k}
}

type (
	asker struct {
		*Keyboard
		shows *Activity
	}
	person struct{ *Keyboard }
)

// catchUp is how long a question waits for the words before it to be shown.
// They come by another way and may be a moment behind.
const catchUp = 500 * time.Millisecond

func (a asker) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	if a.shows != nil {
		late := time.NewTimer(catchUp)
		defer late.Stop()
		select {
		case <-a.shows.asked:
		case <-late.C:
		case <-ctx.Done():
		}
	}
	return alone(a.Keyboard, func() (approval.Answer, error) { return a.term.Ask(ctx, q) })
}

func (p person) Ask(ctx context.Context, q bridge.Question) (bridge.Answer, error) {
	return alone(p.Keyboard, func() (bridge.Answer, error) { return p.term.Person().Ask(ctx, q) })
}

func (p person) Elicit(ctx context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	return alone(p.Keyboard, func() (bridge.ElicitationAnswer, error) { return p.term.Person().Elicit(ctx, e) })
}
