package approval

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screen is what a person sees; it can be waited on.
type screen struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed and replaced with every write
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// waitFor returns when want has been shown count times.
func (s *screen) waitFor(t *testing.T, want string, count int) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		text, changed := s.text.String(), s.changed
		s.mu.Unlock()
		if strings.Count(text, want) >= count {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%q was not shown %d times; the screen is\n%s", want, count, text)
		}
	}
}

// typed is a terminal whose input is given in advance.
func typed(t *testing.T, input string) (*Terminal, *screen) {
	t.Helper()
	s := newScreen()
	term := &Terminal{In: strings.NewReader(input), Out: s}
	t.Cleanup(func() {
		if err := term.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return term, s
}

// live is a terminal that can be typed at.
func live(t *testing.T) (*Terminal, *screen, io.Writer) {
	t.Helper()
	r, w := io.Pipe()
	s := newScreen()
	term := &Terminal{In: r, Out: s}
	t.Cleanup(func() {
		if err := term.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return term, s, w
}

func say(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Errorf("typing %q: %v", text, err)
	}
}
