package view

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// screen is a terminal of which a program draws every row. It uses the
// terminal's alternate screen, so that what was there before comes back. One
// goroutine reads the keys and another notices new sizes; close waits for both.
// All else is called by the goroutine that opened it.
type screen struct {
	c       *Console
	in      *os.File
	keys    chan key
	resized chan struct{} // has a value when the size has changed
	drawn   string
	leave   func() // gives the terminal back, once

	quit    chan struct{}
	running sync.WaitGroup
}

// frame is all rows of a screen, and where the cursor stands if it is shown.
type frame struct {
	rows   []string
	cursor bool
	y, x   int
}

const (
	// Wrapping is off, so that a row that is too long cannot move the others.
	screenOn  = "\x1b[?1049h\x1b[?7l\x1b[?25l\x1b[2J" + pasteOn
	screenOff = pasteOff + "\x1b[?25h\x1b[?7h\x1b[?1049l"
	// escapeWithin is how soon the rest of a key follows its escape.
	escapeWithin = 50 * time.Millisecond
)

// openScreen takes the terminal. What others write to the console waits until
// the screen is closed.
func openScreen(c *Console) (*screen, error) {
	in, err := os.OpenFile(terminalFile, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	restore, err := rawMode(in)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	s := &screen{c: c, in: in, keys: make(chan key, 64), resized: make(chan struct{}, 1), quit: make(chan struct{})}
	c.pause()
	s.write(screenOn)
	s.leave = sync.OnceFunc(func() {
		s.write(screenOff)
		restore()
	})
	s.running.Go(s.read)
	s.running.Go(func() {
		defer s.crashed()
		resized(s.quit, func() {
			select {
			case s.resized <- struct{}{}:
			default:
			}
		})
	})
	return s, nil
}

// crashed gives the terminal back when the goroutine that defers it panics, so
// that the panic can be read. It does not stop the panic.
func (s *screen) crashed() {
	if p := recover(); p != nil {
		s.leave()
		panic(p)
	}
}

func (s *screen) close() {
	close(s.quit)
	_ = s.in.SetReadDeadline(time.Now()) // where it cannot be set, the next key ends the read
	s.running.Wait()
	s.leave()
	_ = s.in.Close() // it was only read
	s.c.resume()
}

// size is how many columns and rows there are.
func (s *screen) size() (columns, rows int) {
	columns, rows = 80, 24
	conn, err := s.in.SyscallConn()
	if err != nil {
		return columns, rows
	}
	_ = conn.Control(func(fd uintptr) { // the defaults stay if it fails
		if w, h, err := term.GetSize(int(fd)); err == nil && w > 0 && h > 0 {
			columns, rows = w, h
		}
	})
	return columns, rows
}

// read passes the keys on until the terminal or the screen is closed.
func (s *screen) read() {
	defer s.crashed()
	defer close(s.keys)
	var d decoder
	buf := make([]byte, 4096)
	for {
		var until time.Time
		if len(d.rest) > 0 {
			until = time.Now().Add(escapeWithin)
		}
		_ = s.in.SetReadDeadline(until) // without it Esc waits for the next key
		select {
		case <-s.quit: // looked at after the deadline was set: close sets it too
			return
		default:
		}
		n, err := s.in.Read(buf)
		keys := d.add(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			keys, err = append(keys, d.flush()...), nil
		}
		for _, k := range keys {
			select {
			case s.keys <- k:
			case <-s.quit:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// draw shows a frame.
func (s *screen) draw(f frame) {
	var b strings.Builder
	b.WriteString("\x1b[?25l\x1b[H")
	for i, row := range f.rows {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("\x1b[K" + row) // behind a full row it would erase the last column
	}
	b.WriteString("\x1b[J")
	if f.cursor {
		b.WriteString("\x1b[H" + strings.Repeat("\x1b[B", f.y) + strings.Repeat("\x1b[C", f.x) + "\x1b[?25h")
	}
	if text := b.String(); text != s.drawn { // drawing it again would only flicker
		s.drawn = text
		s.write(text)
	}
}

func (s *screen) write(text string) { _, _ = s.c.Out.Write([]byte(text)) } // a failure is noticed by the stream

// flush forgets the keys that were typed ahead.
func (s *screen) flush() {
	drain(s.in)
	for {
		select {
		case <-s.keys:
		default:
			return
		}
	}
}

// look is how often what is shown is looked at anew.
const look = 200 * time.Millisecond

// run draws t and hands keys to it until the person leaves or ctx ends.
func (s *screen) run(ctx context.Context, t *top) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		s.draw(t.frame(s.size()))
		select {
		case k, open := <-s.keys:
			if !open || t.press(k) { // the terminal is gone, or the person
				return nil
			}
		case <-t.o.Changed:
			t.refresh()
		case post := <-t.posts:
			post()
		case <-s.resized:
			s.drawn = ""
		case <-tick.C:
			t.tick()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
