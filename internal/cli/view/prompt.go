package view

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Prompt is the line at the bottom of a terminal in which a person types while
// other things are written above it. Questions take its place until they are
// answered; what was typed before is there again then.
type Prompt struct {
	c       *Console
	in      *os.File
	restore func()
	inputs  chan Input

	mu   sync.Mutex // after the console's
	main editor
	ask  *asking // the question under way

	quit    chan struct{}
	running sync.WaitGroup
}

// Input is what a person has entered.
type Input struct {
	Kind InputKind
	Text string // of a line
}

// InputKind is the kind of an Input.
type InputKind int

// The kinds.
const (
	InputLine      InputKind = iota // text and Enter
	InputInterrupt                  // Ctrl-C
	InputEnd                        // Ctrl-D, or the terminal is gone
)

// asking is a question that waits for its line.
type asking struct {
	editor
	prompt string
	answer chan Input
}

const mainPrompt = "> "

// PromptOptions are what a Prompt remembers and completes.
type PromptOptions struct {
	History  []string // what was entered before, the oldest first
	Complete func(text string) []string
}

// Prompt makes the keyboard's terminal one in which a person can type at any
// time. All questions of the keyboard are put there from now on. Closing the
// keyboard closes it.
func (k *Keyboard) Prompt(o PromptOptions) (*Prompt, error) {
	if k.file == nil {
		return nil, errors.New("the terminal cannot be opened")
	}
	p := &Prompt{c: k.c, in: k.file, inputs: make(chan Input, 64), quit: make(chan struct{})}
	p.main.history, p.main.complete, p.main.at = o.History, o.Complete, len(o.History)
	restore, err := rawMode(p.in)
	if err != nil {
		return nil, err
	}
	p.restore = restore
	k.prompt = p
	k.term.Read, k.term.Out = p.Ask, above{k.c}
	p.c.mu.Lock()
	p.c.prompt = p.rows
	p.c.write(p.c.Err, pasteOn)
	p.c.mu.Unlock()
	p.running.Go(p.read)
	p.running.Go(func() { resized(p.quit, p.c.refresh) })
	p.c.refresh()
	return p, nil
}

// rawMode has a terminal pass on every key. It does not use Fd, which would
// disable deadlines.
func rawMode(f *os.File) (restore func(), err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var state *term.State
	var rawErr error
	if err := conn.Control(func(fd uintptr) { state, rawErr = term.MakeRaw(int(fd)) }); err != nil || rawErr != nil {
		return nil, errors.Join(err, rawErr)
	}
	return func() { _ = conn.Control(func(fd uintptr) { _ = term.Restore(int(fd), state) }) }, nil
}

// Inputs are what the person enters.
func (p *Prompt) Inputs() <-chan Input { return p.inputs }

// Remember adds to the history.
func (p *Prompt) Remember(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.main.remember(line)
}

// Restore puts back a text that could not be used, unless the person has begun
// another.
func (p *Prompt) Restore(text string) {
	p.mu.Lock()
	if len(p.main.text) == 0 {
		p.main.set([]rune(text))
	}
	p.mu.Unlock()
	p.c.refresh()
}

// Clear throws away what is typed, and says whether there was anything.
func (p *Prompt) Clear() bool {
	p.mu.Lock()
	had := p.main.take() != ""
	p.mu.Unlock()
	p.c.refresh()
	return had
}

// close gives the terminal back. It waits.
func (p *Prompt) close() {
	close(p.quit)
	_ = p.in.SetReadDeadline(time.Now()) // where it cannot be set, the next key ends the read
	p.running.Wait()
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.c.erase()
	p.c.prompt = nil
	p.c.write(p.c.Err, pasteOff)
	p.restore()
}

// read passes the keys on until the terminal or the prompt is closed.
func (p *Prompt) read() {
	var d decoder
	buf := make([]byte, 4096)
	for {
		n, err := p.in.Read(buf)
		for _, k := range d.add(buf[:n]) {
			p.key(k)
		}
		if err != nil {
			p.enter(Input{Kind: InputEnd})
			return
		}
	}
}

// key does what a key asks for, and shows it.
func (p *Prompt) key(k key) {
	p.mu.Lock()
	e, ask := &p.main, p.ask
	if ask != nil {
		e = &ask.editor
	}
	var in *Input
	switch {
	case k.code == keyInterrupt:
		in, ask = &Input{Kind: InputInterrupt}, nil
	case k.code == keyEOF && len(e.text) == 0:
		in = &Input{Kind: InputEnd}
	case k.code == keyEOF:
		e.edit(key{code: keyDelete})
	case k.code == keyClear:
		defer p.c.clear()
	default:
		if sent, ok := e.edit(k); ok {
			in = &Input{Text: strings.TrimRight(sent, " \t\n")}
		}
	}
	if in != nil && ask != nil {
		p.ask = nil
		ask.answer <- *in // it has room for one
	}
	p.mu.Unlock()
	switch {
	case in == nil || ask != nil:
		p.c.refresh()
	case in.Kind == InputLine && in.Text == "":
		p.c.refresh()
	case in.Kind == InputLine:
		p.c.Said(in.Text)
		p.enter(*in)
	default:
		p.enter(*in)
	}
}

func (p *Prompt) enter(in Input) {
	select {
	case p.inputs <- in:
	case <-p.quit:
	}
}

// Ask puts a question in the place of what is being typed, and returns the
// line that answers it; io.EOF if the person wants to give none.
func (p *Prompt) Ask(ctx context.Context, prompt string) (string, error) {
	q := &asking{prompt: prompt, answer: make(chan Input, 1)}
	p.mu.Lock()
	p.ask = q
	p.mu.Unlock()
	p.c.refresh()
	defer p.c.refresh()
	in := Input{Kind: InputEnd}
	var err error
	select {
	case in = <-q.answer:
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.quit:
	}
	p.mu.Lock()
	if p.ask == q {
		p.ask = nil
	}
	p.mu.Unlock()
	if err == nil && in.Kind == InputEnd {
		err = io.EOF
	}
	if approval.Elsewhere(ctx) != nil {
		return "", err
	}
	// The question and its answer stay on the screen.
	_, _ = io.WriteString(above{p.c}, prompt+Harmless(in.Text)+"\n")
	return in.Text, err
}

// rows are the lines at the bottom of the screen. While the terminal belongs to
// a question nothing else is shown.
func (p *Prompt) rows(width int, alone bool) (rows []string, y, x int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ask != nil:
		return p.ask.rows(p.ask.prompt, width)
	case alone:
		return nil, 0, 0
	}
	return p.main.rows(mainPrompt, width)
}

// above writes above the prompt, also while a question has the terminal.
type above struct{ c *Console }

func (a above) Write(b []byte) (int, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.c.erase()
	a.c.write(a.c.Err, string(b))
	a.c.draw()
	return len(b), nil
}
