package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func consent(lead string) Question {
	return Question{Session: "s1", Lead: lead, Answers: []string{Once, Session, Deny}}
}

func ask(t *testing.T, l *Local, q Question) *Open {
	t.Helper()
	o, err := l.Open(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

func TestAQuestionIsSeenAndAnswered(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l := start(t, home, Process{Command: "run"})
	o := ask(t, l, consent("Copilot wants to run: make"))
	list, err := Questions(home)
	if err != nil || len(list) != 1 || list[0].ID != o.ID || list[0].Process != l.ID() || list[0].Lead != o.Lead || list[0].Asked.IsZero() {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := Answer(home, o.ID, Reply{Answer: Always, By: "dashboard"}); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("an answer that was not offered: %v", err)
	}
	if err := Answer(home, o.ID, Reply{Answer: Deny, Reason: "use make", By: "dashboard"}); err != nil {
		t.Fatal(err)
	}
	if r := <-o.Replied(); r.Answer != Deny || r.Reason != "use make" || r.By != "dashboard" {
		t.Errorf("got %+v", r)
	}
	if list, err := Questions(home); err != nil || len(list) != 0 {
		t.Errorf("still open: %+v, %v", list, err)
	}
	for range 2 { // before and after it is closed
		err := Answer(home, o.ID, Reply{Answer: Once, By: "top"})
		if !errors.Is(err, ErrAnswered) || bridge.CodeOf(err) != bridge.CodeConflict || !strings.Contains(err.Error(), "denied") || !strings.Contains(err.Error(), "dashboard") {
			t.Errorf("the second answer: %v", err)
		}
		o.Close()
	}
}

func TestNobodyAnswersWhatIsGone(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l := start(t, home, Process{Command: "run"})
	o := ask(t, l, consent("?"))
	o.Close()
	outside := filepath.Join(home, "x.json")
	if err := os.WriteFile(outside, []byte(`{"answers":["once"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{o.ID, "", "NEVER", "../../../x", "../orders/x"} {
		if err := Answer(home, id, Reply{Answer: Once}); !errors.Is(err, ErrGone) || bridge.CodeOf(err) != bridge.CodeNotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// Of all who answer at once, the owner among them, exactly one is the first, and
// all know the same.
func TestExactlyOneAnswerWins(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l := start(t, home, Process{Command: "run"})
	for round := range 60 {
		o := ask(t, l, consent(fmt.Sprint("round ", round)))
		var winners atomic.Int32
		var won atomic.Value
		var all sync.WaitGroup
		begin := make(chan struct{})
		wins := func(by string) { winners.Add(1); won.Store(by) }
		for _, by := range []string{"dashboard", "top", "phone link"} {
			all.Go(func() {
				<-begin
				switch err := Answer(home, o.ID, Reply{Answer: Once, By: by}); {
				case err == nil:
					wins(by)
				case !errors.Is(err, ErrAnswered):
					t.Errorf("%s: %v", by, err)
				}
			})
		}
		var first Reply
		all.Go(func() {
			<-begin
			r, ok := o.Claim(Reply{Answer: Deny, By: "terminal"})
			if first = r; ok {
				wins("terminal")
			}
		})
		close(begin)
		all.Wait()
		if winners.Load() != 1 || first.By != won.Load() {
			t.Fatalf("round %d: %d winners, %v; the owner knows of %q", round, winners.Load(), won.Load(), first.By)
		}
		if r := <-o.Replied(); r.By != won.Load() {
			t.Fatalf("round %d: replied %q", round, r.By)
		}
		o.Close()
	}
}

// Between an answer and the withdrawal of the question, too, one wins.
func TestAnAnswerBeatsTheWithdrawalOrIsRefused(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l := start(t, home, Process{Command: "run"})
	for range 60 {
		o := ask(t, l, consent("?"))
		answered := make(chan error)
		go func() { answered <- Answer(home, o.ID, Reply{Answer: Once, By: "dashboard"}) }()
		r, withdrawn := o.Claim(Reply{})
		err := <-answered
		if withdrawn && !errors.Is(err, ErrGone) || !withdrawn && (err != nil || r.By != "dashboard") {
			t.Fatalf("withdrawn %t, %+v; answered: %v", withdrawn, r, err)
		}
		o.Close()
	}
}

// child is a process of its own that has made itself known.
func child(t *testing.T, home string) (cmd *exec.Cmd, id string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.Stderr = append(os.Environ(), "LIVE_TEST_HOME="+home), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	said.Scan()
	return cmd, said.Text()
}

func TestAQuestionIsGoneWithItsProcess(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd, id := child(t, home)
	theirs := &Local{home: home, dir: filepath.Join(Dir(home), id), process: Process{ID: id}}
	o := ask(t, theirs, consent("?"))
	if list, err := Questions(home); err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := Answer(home, o.ID, Reply{Answer: Once}); !errors.Is(err, ErrGone) {
		t.Errorf("answered to a dead process: %v", err)
	}
	if list, err := Questions(home); err != nil || len(list) != 0 {
		t.Errorf("a dead process asks: %+v, %v", list, err)
	}
}

func TestWatchTellsOfQuestionsAndMarksTheHome(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l := start(t, home, Process{Command: "run"})
	if Watched(home) {
		t.Error("watched by nobody")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	seen := make(chan int, 100)
	var watching sync.WaitGroup
	watching.Go(func() {
		Watch(ctx, home, 10*time.Millisecond, func() {
			list, err := Questions(home)
			if err != nil {
				t.Error(err)
			}
			select {
			case seen <- len(list):
			default:
			}
		})
	})
	defer watching.Wait()
	defer cancel()
	waitFor := func(want int) {
		t.Helper()
		for {
			select {
			case n := <-seen:
				if n == want {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%d questions were never seen", want)
			}
		}
	}
	waitFor(0)
	if !Watched(home) {
		t.Error("not marked as watched")
	}
	for range 5 {
		o := ask(t, l, consent("?"))
		waitFor(1)
		o.Close()
		waitFor(0)
	}
}

func TestOldAnswersAreRemoved(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l := start(t, home, Process{Command: "run"})
	open, done := ask(t, l, consent("a")), ask(t, l, consent("b"))
	done.Close()
	old := time.Now().Add(-2 * replyKept)
	for _, o := range []*Open{open, done} {
		o.Claim(Reply{Answer: Once})
		if err := os.Chtimes(o.file+replySuffix, old, old); err != nil {
			t.Fatal(err)
		}
	}
	ask(t, l, consent("c"))
	if !exists(open.file+replySuffix) || exists(done.file+replySuffix) {
		t.Errorf("the answer of the open question is there: %t, of the closed one: %t", exists(open.file+replySuffix), exists(done.file+replySuffix))
	}
}
