package cli

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// console keeps apart what shares a terminal: the answer on standard output,
// lines on standard error, and below them a live region that is redrawn in
// place. In a pipe it only writes lines. Its methods may be called
// concurrently; failed writes are noticed by the streams below.
type console struct {
	out, err       io.Writer
	outTTY, errTTY bool // terminals that understand escape sequences
	style          style
	width          func() int

	mu     sync.Mutex
	live   []liveLine // what the region should show
	drawn  int        // how many lines of it are on the screen, the cursor in the last
	inLine bool       // the cursor stands inside a line of the answer
	pauses int        // questions under way
	held   []func()   // what waits for them
}

// liveLine is painted after it was cut to the terminal's width.
type liveLine struct {
	text  string
	paint func(string) string
}

func newConsole(p *program) *console {
	e := &p.env
	smart := e.get("TERM") != "dumb"
	c := &console{out: p.out, err: p.err, outTTY: smart && e.isTerminal(e.Stdout), errTTY: smart && e.isTerminal(e.Stderr),
		width: func() int {
			if e.Width == nil {
				return 80
			}
			return e.Width(e.Stderr)
		}}
	if (c.outTTY || c.errTTY) && !enableEscapes(e.Stdout, e.Stderr) {
		c.outTTY, c.errTTY = false, false
	}
	c.style.on = c.errTTY && e.get("NO_COLOR") == ""
	return c
}

// do runs f when the terminal is free, with the live region out of the way.
func (c *console) do(f func()) {
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

// answer writes to standard output.
func (c *console) answer(text string) {
	if text == "" {
		return
	}
	c.do(func() {
		_, _ = io.WriteString(c.out, text)
		c.inLine = c.outTTY && c.errTTY && !strings.HasSuffix(text, "\n")
	})
}

// line writes one line to standard error.
func (c *console) line(text string) { c.lines(text + "\n") }

// lines writes text that ends with a line break to standard error.
func (c *console) lines(text string) {
	c.do(func() {
		c.endLine()
		_, _ = io.WriteString(c.err, text)
	})
}

// Write makes the console the place where logs go, a record at a time.
func (c *console) Write(b []byte) (int, error) {
	c.lines(string(b))
	return len(b), nil
}

// show sets what the live region shows. Without a terminal there is none.
func (c *console) show(lines []liveLine) {
	if !c.errTTY {
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
func (c *console) tick(mu sync.Locker, redraw func()) (stop func()) {
	if !c.errTTY {
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
				mu.Lock()
				redraw()
				mu.Unlock()
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

func (c *console) endLine() {
	if c.inLine {
		_, _ = io.WriteString(c.err, "\n")
		c.inLine = false
	}
}

func (c *console) erase() {
	if c.drawn > 0 {
		_, _ = io.WriteString(c.err, "\r"+strings.Repeat("\x1b[A", c.drawn-1)+"\x1b[J")
		c.drawn = 0
	}
}

func (c *console) draw() {
	if !c.errTTY || c.inLine || len(c.live) == 0 {
		return
	}
	width := c.width() - 1 // a full line would wrap on some terminals
	all := make([]string, len(c.live))
	for i, l := range c.live {
		all[i] = fit(l.text, width)
		if l.paint != nil {
			all[i] = l.paint(all[i])
		}
	}
	_, _ = io.WriteString(c.err, strings.Join(all, "\n"))
	c.drawn = len(all)
}

// pause gives the terminal to a question; what comes meanwhile is kept until
// resume.
func (c *console) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	c.endLine()
	c.pauses++
}

func (c *console) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses--; c.pauses > 0 {
		return
	}
	for _, f := range c.held {
		f()
	}
	c.held = nil
	c.draw()
}

// outcome is the last line of a task: how it ended, after which time, and parts
// that say more about it.
func (c *console) outcome(err error, partly bool, took time.Duration, u bridge.Usage, parts ...string) {
	how := c.style.green("done in " + duration(took))
	switch code := bridge.CodeOf(err); {
	case err == nil:
	case code == bridge.CodeCanceled:
		how = c.style.yellow("interrupted after " + duration(took))
	case partly:
		how = c.style.yellow("partly done after " + duration(took))
	case code == bridge.CodeDenied:
		how = c.style.red("denied after " + duration(took))
	default:
		how = c.style.red("failed after " + duration(took))
	}
	parts = append([]string{how}, parts...)
	if u.Calls > 0 {
		parts = append(parts, count(u.InputTokens)+" tokens in, "+count(u.OutputTokens)+" out")
	}
	c.line(strings.Join(parts, c.style.dim(" · ")))
}
