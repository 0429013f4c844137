package approval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const menu = "[o]nce / [s]ession / [d]eny: "

func TestAskUnderstands(t *testing.T) {
	for _, tt := range []struct {
		typed string
		want  Consent
	}{
		{"y\n", Once}, {"YES\n", Once}, {" y \r\n", Once},
		{"o\n", Once}, {"Once\n", Once},
		{"s\n", Session}, {"session\n", Session},
		{"d\n", No}, {"deny\n", No},
		{"n\n", No}, {"no\n", No}, {"\n", No},
		{"what?\nyep\ny\n", Once},
		{"y", Once}, // the input's last line need not end
	} {
		term, _ := typed(t, tt.typed)
		got, err := term.Ask(t.Context(), Question{Summary: "run: npm test"})
		if err != nil || got.Consent != tt.want {
			t.Errorf("%q: got %v, %v; want %v", tt.typed, got, err, tt.want)
		}
	}
}

// A rule for good is offered where there is one, and shown.
func TestAskOffersARule(t *testing.T) {
	for typing, want := range map[string]Consent{"a\n": Always, "Always\n": Always, "s\n": Session, "y\n": Once, "\n": No} {
		term, s := typed(t, typing)
		got, err := term.Ask(t.Context(), Question{Summary: "run: cat /srv/x", Rules: []string{`sandbox.read: "/srv/x"`}})
		if err != nil || got.Consent != want {
			t.Errorf("%q: %v, %v; want %v", typing, got, err, want)
		}
		if want := "    always: writes into your policy file sandbox.read: \"/srv/x\"\n  [o]nce / [s]ession / [a]lways / [d]eny: "; !strings.Contains(s.String(), want) {
			t.Errorf("%q", s)
		}
	}
	term, s := typed(t, "a\nd\n")
	got, err := term.Ask(t.Context(), Question{Summary: "run: make"})
	if want := menu + "  No rule can say just this, so it cannot be allowed always.\n  Please type o, s or d.\n  " + menu; got.Consent != No || err != nil || !strings.Contains(s.String(), want) {
		t.Errorf("not offered: %v, %v, %q", got, err, s)
	}
}

func TestAskShowsWhatIsAsked(t *testing.T) {
	term, s := typed(t, "maybe\nn\n")
	if _, err := term.Ask(t.Context(), Question{Summary: "run: npm test …", Detail: "npm test\nnpm run build\n"}); err != nil {
		t.Fatal(err)
	}
	want := "? Copilot wants to run: npm test …\n    npm test\n    npm run build\n  " + menu +
		"  Please type o, s or d.\n  " + menu
	if got := s.String(); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// Whatever stands before it, the last lines on a small screen say what is
// decided; and nothing is left out above them.
func TestAskEndsWithWhatIsDecided(t *testing.T) {
	term, s := typed(t, "n\n")
	var lines strings.Builder
	for i := range 300 {
		fmt.Fprintf(&lines, "| echo %d\n", i)
	}
	q := Question{Summary: "run: echo 0 … (lines: 301, characters: 3000)", Detail: lines.String() + strings.Repeat("\n", 50) + "| touch evil" + strings.Repeat(" ", 200) + "# end", Says: "List files"}
	if _, err := term.Ask(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	got := s.String()
	for i := range 300 {
		if !strings.Contains(got, fmt.Sprintf("    | echo %d\n", i)) {
			t.Fatalf("line %d is missing", i)
		}
	}
	if end := "\n    (50 blank lines)\n    | touch evil (200 spaces) # end\n    Copilot says: “List files”\n" +
		"    All of the above is one question: run: echo 0 … (lines: 301, characters: 3000)\n  " + menu; !strings.HasSuffix(got, end) {
		t.Errorf("it ends with %q", got[len(got)-400:])
	}
	term, s = typed(t, "y\n")
	if a, err := term.Ask(t.Context(), Question{Summary: "run: x", Detail: strings.Repeat("ab ", MaxShown/3)}); a.Consent != No || err == nil || s.String() != "" {
		t.Errorf("too long: %v, %v, %q", a, err, s)
	}
}

func TestAskNeutralisesControlCharacters(t *testing.T) {
	term, s := typed(t, "n\n")
	q := Question{Summary: "run: rm -rf x\x1b[2K\rrun: ls", Detail: "a\x07\x1b]0;title\x9b2J\u202eb\xff"}
	if _, err := term.Ask(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if got := s.String(); strings.ContainsAny(got, "\x1b\r\x07\u009b\u202e") || !utf8.ValidString(got) {
		t.Errorf("control characters reached the terminal: %q", got)
	}
	if want := `run: rm -rf x\x1b[2K\rrun: ls`; !strings.Contains(s.String(), want) {
		t.Errorf("%q is not shown in %q", want, s)
	}
}

func TestEndOfInputIsADenial(t *testing.T) {
	term, _ := typed(t, "")
	for range 2 { // also when it is known already
		got, err := term.Ask(t.Context(), Question{Summary: "run: x"})
		if got.Consent != No || bridge.CodeOf(err) != bridge.CodeDenied || !errors.Is(err, io.EOF) {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	term, s, w := live(t)
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := term.Ask(ctx, Question{Summary: "run: first"})
		answered <- err
	}()
	s.waitFor(t, menu, 1)
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	s.waitFor(t, "\n  No longer asked: who wanted it has gone.\n", 1)
	// The read is still under way, and serves the next question.
	go func() {
		_, err := term.Ask(t.Context(), Question{Summary: "run: second"})
		answered <- err
	}()
	s.waitFor(t, menu, 2)
	say(t, w, "n\n")
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}

func TestLateAnswersGoNowhere(t *testing.T) {
	term, s, w := live(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan Answer, 1)
	ask := func(ctx context.Context) {
		a, _ := term.Ask(ctx, Question{Summary: "run: x"}) // the answer is what counts
		got <- a
	}
	go ask(ctx)
	s.waitFor(t, menu, 1)
	cancel()
	<-got
	say(t, w, "y\n") // returns when it has been read, by nobody's wish
	waitIdle(t, term)
	go ask(t.Context())
	s.waitFor(t, menu, 2)
	say(t, w, "\n")
	if a := <-got; a.Consent != No {
		t.Errorf("the answer to the first question was taken for the second: %v", a)
	}
}

func waitIdle(t *testing.T, term *Terminal) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		term.lines.mu.Lock()
		reading := term.lines.reading
		term.lines.mu.Unlock()
		if reading == nil || len(reading) > 0 {
			return
		}
		<-tick.C
	}
	t.Fatal("the read did not end")
}

func TestQuestionsAreSerialised(t *testing.T) {
	term, s, w := live(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if a, err := term.Ask(t.Context(), Question{Summary: "run: x"}); err != nil || a.Consent != Once {
				t.Errorf("got %v, %v", a, err)
			}
		})
	}
	for i := range 3 {
		s.waitFor(t, menu, i+1)
		if n := strings.Count(s.String(), "Copilot wants"); n != i+1 {
			t.Fatalf("%d questions are shown after %d answers", n, i)
		}
		say(t, w, "y\n")
	}
	wg.Wait()
}

func TestWaitingForOthersEndsWithTheContext(t *testing.T) {
	term, s, w := live(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := term.Ask(t.Context(), Question{Summary: "run: x"}); err != nil {
			t.Error(err)
		}
	}()
	s.waitFor(t, menu, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if a, err := term.Ask(ctx, Question{Summary: "run: y"}); a.Consent != No || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", a, err)
	}
	late, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	unattended, screen, _ := live(t)
	if _, err := unattended.Ask(late, Question{Summary: "run: z"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	screen.waitFor(t, "\n  No answer in time: denied.\n", 1)
	if strings.Contains(s.String(), "run: y") {
		t.Error("the second question was shown")
	}
	say(t, w, "n\n")
	<-done
}

func TestDrainComesBeforeTheQuestion(t *testing.T) {
	s := newScreen()
	seen := "not called"
	term := &Terminal{In: strings.NewReader("y\n"), Out: s, Drain: func() { seen = s.String() }}
	if _, err := term.Ask(t.Context(), Question{Summary: "run: x"}); err != nil {
		t.Fatal(err)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	if seen != "" {
		t.Errorf("drained after this was shown: %q", seen)
	}
}

// TestCloseEndsAWaitingRead needs TestMain's look at the goroutines.
func TestCloseEndsAWaitingRead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := newScreen()
	term := &Terminal{In: r, Out: s}
	got := make(chan error, 1)
	go func() {
		_, err := term.Line(t.Context(), "> ")
		got <- err
	}()
	s.waitFor(t, "> ", 1)
	for range 2 {
		if err := term.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := <-got; !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := term.Line(t.Context(), "> "); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Error(err)
	}
}

func TestLine(t *testing.T) {
	term, s := typed(t, "one\r\n"+strings.Repeat("x", maxLine+10)+"\nlast")
	for _, want := range []string{"one", strings.Repeat("x", maxLine), "last"} {
		if got, err := term.Line(t.Context(), "> "); err != nil || got != want {
			t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(want))
		}
	}
	if _, err := term.Line(t.Context(), "> "); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	if got := s.String(); got != "> > > > \n" {
		t.Errorf("shown: %q", got)
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[31m", "é\u202e\u200b", "\xff\xfe", "\uFFFD", "a\nb\tc\r", "日本"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Visible(s)
		for _, r := range got {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
				t.Fatalf("%q became %q", s, got)
			}
		}
		if Visible(got) != got {
			t.Fatalf("%q is not stable", got)
		}
	})
}

// A question that was answered elsewhere vanishes: one line says what came of it,
// and the next question has the terminal.
func TestAskVanishesWhenItIsAnsweredElsewhere(t *testing.T) {
	for wipes, end := range map[bool]string{false: "\n", true: "\r\x1b[K"} {
		term, s, w := live(t)
		term.Wipes = wipes
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := term.Ask(ctx, Question{Summary: "run: first"})
			done <- err
		}()
		s.waitFor(t, menu, 1)
		cancel(&ElsewhereError{By: "dash\x1bboard", Said: "allowed once"})
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		s.waitFor(t, menu+end+"  answered in the dash\\x1bboard: allowed once\n", 1)
		if strings.Contains(s.String(), "No longer asked") {
			t.Errorf("shown: %q", s)
		}
		second := make(chan Answer, 1)
		go func() {
			a, err := term.Ask(t.Context(), Question{Summary: "run: second"})
			if err != nil {
				t.Error(err)
			}
			second <- a
		}()
		s.waitFor(t, menu, 2)
		say(t, w, "s\n")
		if a := <-second; a != (Answer{Consent: Session, By: "terminal"}) {
			t.Errorf("got %+v", a)
		}
	}
}
