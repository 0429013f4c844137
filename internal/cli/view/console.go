package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Console keeps apart what shares a terminal: the answer on standard output,
// lines on standard error, and below them a live region that is redrawn in
// place. In a pipe it only writes lines. Its methods may be called
// concurrently; failed writes are noticed by the streams below.
type Console struct {
	Out, Err       io.Writer
	OutTTY, ErrTTY bool // terminals that understand escape sequences
	Colour         bool // on standard error
	Width          func() int

	mu     sync.Mutex
	live   []liveLine // what the region should show
	drawn  []int      // the columns of what is drawn, row by row, up to the cursor
	inLine bool       // the cursor stands inside a line of the answer
	// prompt, if set, draws what a person types: its rows, and the cursor. The
	// terminal is in raw mode then.
	prompt func(width int, alone bool) (rows []string, y, x int)
	pauses int      // questions under way
	held   []func() // what waits for them
}

// liveLine is painted after it was cut to the terminal's width.
type liveLine struct {
	text  string
	paint func(string) string
}

func (c *Console) style() style { return style{c.Colour} }

// do runs f when the terminal is free, with the live region out of the way.
func (c *Console) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses > 0 {
		c.held = append(c.held, f)
		return
	}
	c.erase()
	f()
	c.draw()
}

// Answer writes to standard output.
func (c *Console) Answer(text string) {
	if text == "" {
		return
	}
	c.do(func() {
		c.write(c.Out, text)
		c.inLine = c.OutTTY && c.ErrTTY && !strings.HasSuffix(text, "\n")
	})
}

// settle writes lines of the answer of which the live region had the beginning,
// and sets what it shows from now on.
func (c *Console) settle(text string, live []liveLine) {
	if text == "" {
		c.show(live)
		return
	}
	c.do(func() {
		c.write(c.Out, text)
		c.live = live
	})
}

// Line writes one line to standard error.
func (c *Console) Line(text string) { c.Lines(text + "\n") }

// Dim writes a line that matters less.
func (c *Console) Dim(text string) { c.Line(c.style().dim(approval.Visible(text))) }

// Warn writes a line about something that is not as it should be.
func (c *Console) Warn(text string) { c.Line(c.style().yellow("! " + approval.Visible(text))) }

// Alert writes a line that must not be overlooked.
func (c *Console) Alert(text string) { c.Line(c.style().loud("! " + approval.Visible(text))) }

// Ready says where a server answers.
func (c *Console) Ready(url string) { c.Line("copilot-bridge is ready: " + c.style().bold(url)) }

// Listening says where a server listens that cannot do its work yet.
func (c *Console) Listening(url string) {
	c.Line("copilot-bridge listens, without Copilot: " + c.style().bold(url))
}

// Report shows an error and what to do about it.
func (c *Console) Report(e *bridge.Error) {
	text := "copilot-bridge: " + strings.ReplaceAll(Harmless(e.Message), "\n", "\n  ") + "\n"
	if e.Remedy != "" {
		text += "  → " + advice(e.Remedy) + "\n"
	}
	c.Lines(text)
}

// Check is how a check went.
type Check string

// The ways.
const (
	CheckOK      Check = "ok"
	CheckWarning Check = "warning"
	CheckFailed  Check = "failed"
)

// Check writes the result of a check to standard output.
func (c *Console) Check(how Check, name, detail, remedy string) {
	s := style{c.Colour && c.OutTTY} // standard output may be somewhere else
	of := map[Check]state{CheckOK: done, CheckWarning: warned, CheckFailed: failed}[how]
	text := fmt.Sprintf("%s %-10s %s\n", s.state(of, marks[of]), name, strings.ReplaceAll(Harmless(detail), "\n", "\n             "))
	if remedy != "" {
		text += "             → " + advice(remedy) + "\n"
	}
	c.Answer(c.Wrapped(text))
}

// Wrapped is a text for standard output, broken between words where that is a
// terminal.
func (c *Console) Wrapped(text string) string {
	if !c.OutTTY {
		return text
	}
	return Wrap(text, c.Width())
}

// Lines writes text that ends with a line break to standard error, broken
// between words where that is a terminal.
func (c *Console) Lines(text string) {
	if c.ErrTTY {
		text = Wrap(text, c.Width())
	}
	c.lines(text)
}

func (c *Console) lines(text string) {
	c.do(func() {
		c.endLine()
		c.write(c.Err, text)
	})
}

// write writes text. A terminal in raw mode does not return the cursor at a
// line break by itself.
func (c *Console) write(to io.Writer, text string) {
	if c.prompt != nil {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	_, _ = io.WriteString(to, text)
}

// Said shows what the person has said.
func (c *Console) Said(text string) {
	c.Line(c.style().bold(mainPrompt) + strings.ReplaceAll(Harmless(text), "\n", "\n  "))
}

// Write makes the console the place where logs go, a record at a time.
func (c *Console) Write(b []byte) (int, error) {
	c.lines(string(b))
	return len(b), nil
}

// show sets what the live region shows. Without a terminal there is none.
func (c *Console) show(lines []liveLine) {
	if !c.ErrTTY {
		return
	}
	c.mu.Lock()
	same := slices.EqualFunc(c.live, lines, func(a, b liveLine) bool { return a.text == b.text })
	c.mu.Unlock()
	if !same { // drawing it again would only flicker
		c.do(func() { c.live = lines })
	}
}

// tick redraws the live region every second, so that its times stay true, until
// the returned function is called, which waits and clears it.
func (c *Console) tick(redraw func()) (stop func()) {
	if !c.ErrTTY {
		return func() {}
	}
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				redraw()
			case <-quit:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(quit)
		running.Wait()
		c.show(nil)
	})
}

func (c *Console) endLine() {
	if c.inLine {
		c.write(c.Err, "\n")
		c.inLine = false
	}
}

// erase takes the live region and the prompt off the screen. Their rows may
// take more of the screen than when they were drawn, if it is narrower now.
func (c *Console) erase() {
	if len(c.drawn) == 0 {
		return
	}
	width, up := max(1, c.Width()), 0
	for i, columns := range c.drawn {
		if i < len(c.drawn)-1 {
			up++
		}
		up += max(0, columns-1) / width
	}
	_, _ = io.WriteString(c.Err, "\r"+strings.Repeat("\x1b[A", up)+"\x1b[J")
	c.drawn = nil
}

// draw shows the live region and the prompt below it; while a question has the
// terminal, that alone.
func (c *Console) draw() {
	if !c.ErrTTY || c.inLine || c.prompt == nil && (len(c.live) == 0 || c.pauses > 0) {
		return
	}
	width := c.Width() - 1 // a full line would wrap on some terminals
	var all []string
	var columns []int
	if c.pauses == 0 {
		for _, l := range c.live {
			row := Fit(l.text, width)
			columns = append(columns, cells(row))
			if l.paint != nil {
				row = l.paint(row)
			}
			all = append(all, row)
		}
	}
	end := ""
	if c.prompt != nil {
		rows, y, x := c.prompt(width, c.pauses > 0)
		if len(rows) > 0 {
			end = "\r" + strings.Repeat("\x1b[A", len(rows)-1-y) + strings.Repeat("\x1b[C", x)
			for _, row := range rows[:y] {
				columns = append(columns, cells(row))
			}
			columns = append(columns, x)
		}
		all = append(all, rows...)
	}
	if len(all) == 0 {
		return
	}
	c.write(c.Err, strings.Join(all, "\n")+end)
	c.drawn = columns
}

// refresh draws anew what stands below the lines.
func (c *Console) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	c.draw()
}

// clear empties the screen.
func (c *Console) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.Err, "\x1b[2J\x1b[H")
	c.drawn = nil
	c.draw()
}

// pause gives the terminal to a question; what comes meanwhile is kept until
// resume.
func (c *Console) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	c.endLine()
	c.pauses++
}

func (c *Console) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses--; c.pauses > 0 {
		return
	}
	c.erase()
	for _, f := range c.held {
		f()
	}
	c.held = nil
	c.draw()
}
