package approval

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Terminal asks the person who sits at one: an Asker, through Person a
// bridge.Person, and with Line a reader of plain input, so that a program
// with one input has one reader of it. Questions that come at the same time
// are put one after the other. No other code may read from In meanwhile.
//
// A model, or the author of a file that it read, may have chosen the text that
// is shown. So nothing in it can move the cursor or hide a word: see Visible.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	// Drain, if set, throws away text that was typed ahead. It is called before a
	// question of consent, since an answer must not be given before it is seen.
	Drain func()
	// Wipes says that Out understands escape sequences, so that the prompt of a
	// question can be taken back that was answered elsewhere.
	Wipes bool
	// Read, if set, prompts for a line and returns it, in place of In.
	Read func(ctx context.Context, prompt string) (string, error)

	once  sync.Once
	lines *lines
	turn  chan struct{} // held by whoever talks with the person
}

func (t *Terminal) init() {
	t.once.Do(func() {
		t.lines = newLines(t.In)
		t.turn = make(chan struct{}, 1)
	})
}

// take waits for the person's attention.
func (t *Terminal) take(ctx context.Context) (release func(), err error) {
	t.init()
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the reading of In. If a read is under way that nothing else can
// end, it closes In.
func (t *Terminal) Close() error {
	t.init()
	return t.lines.close()
}

// Ask implements Asker. An empty answer is a no, and so is the end of input.
func (t *Terminal) Ask(ctx context.Context, q Question) (Answer, error) {
	lead, body, err := q.Whole(MaxShown)
	if err != nil {
		return Answer{}, err
	}
	release, err := t.take(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer release()
	if t.Drain != nil {
		t.Drain()
	}
	t.print("? " + lead + "\n")
	if body != "" {
		t.print("    " + strings.ReplaceAll(body, "\n", "\n    ") + "\n")
	}
	choices, keys := "  [o]nce / [s]ession / [d]eny: ", "o, s or d"
	if len(q.Rules) > 0 {
		choices, keys = "  [o]nce / [s]ession / [a]lways / [d]eny: ", "o, s, a or d"
	}
	for {
		text, err := t.read(ctx, choices)
		if err != nil {
			if Elsewhere(ctx) == nil {
				t.print(withdrawn(err))
			}
			return Answer{}, unanswered(err)
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "o", "once", "y", "yes":
			return said(Once), nil
		case "s", "session":
			return said(Session), nil
		case "a", "always":
			if len(q.Rules) > 0 {
				return said(Always), nil
			}
			t.print("  No rule can say just this, so it cannot be allowed always.\n")
		case "", "d", "deny", "n", "no":
			return said(No), nil
		}
		t.print("  Please type " + keys + ".\n")
	}
}

func said(c Consent) Answer { return Answer{Consent: c, By: "terminal"} }

// Line shows a prompt and returns the next line of input, io.EOF at its end.
func (t *Terminal) Line(ctx context.Context, prompt string) (string, error) {
	release, err := t.take(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	return t.read(ctx, prompt)
}

// read prompts for one line. The caller has the person's attention.
func (t *Terminal) read(ctx context.Context, prompt string) (string, error) {
	asked := false
	var text string
	var err error
	if t.Read != nil {
		text, err = t.Read(ctx, prompt)
	} else {
		text, err = t.lines.next(ctx, func() {
			t.print(prompt)
			asked = true
		})
	}
	elsewhere := Elsewhere(ctx)
	switch {
	case err == nil:
		return text, nil
	case asked && elsewhere != nil && t.Wipes:
		t.print("\r\x1b[K") // the prompt, and what was typed after it
	case asked:
		t.print("\n") // the prompt's line is not ended by what was typed
	}
	if elsewhere != nil {
		t.print("  " + elsewhere.Error() + "\n")
	}
	return text, err
}

// print ignores a failure: a person who cannot see the question does not answer
// it.
func (t *Terminal) print(s string) { _, _ = io.WriteString(t.Out, s) }

// withdrawn says below a question that it is no longer open.
func withdrawn(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "  No answer in time: denied.\n"
	case errors.Is(err, context.Canceled):
		return "  No longer asked: who wanted it has gone.\n"
	}
	return ""
}

// unanswered is why there was no answer, in words; a context's error stays
// what it is, since the guard tells time-outs from the rest.
func unanswered(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &bridge.Error{Code: bridge.CodeDenied, Message: "nobody answered: the terminal's input has ended", Cause: err}
}
