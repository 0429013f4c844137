package timeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

// newWriter returns a writer. close writes all and ends it.
func newWriter(t *testing.T) (w *Writer, end func()) {
	t.Helper()
	w = NewWriter(slog.New(slog.DiscardHandler))
	end = func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return w, end
}

func decode(t *testing.T, raw []json.RawMessage) (out []Event) {
	t.Helper()
	for _, r := range raw {
		var e Event
		if err := json.Unmarshal(r, &e); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		out = append(out, e)
	}
	return out
}

// readAll reads a timeline in steps.
func readAll(t *testing.T, s *Store, session string, step int) (out []Event) {
	t.Helper()
	for from := int64(0); ; {
		raw, next, err := s.Read(session, from, step)
		if err != nil {
			t.Fatal(err)
		}
		if next == from {
			return out
		}
		out, from = append(out, decode(t, raw)...), next
	}
}

func TestEventsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	s := Open(filepath.Join(t.TempDir(), "timelines"))
	if _, _, err := s.Read("s1", 0, 10); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Error(err)
	}
	w, end := newWriter(t)
	started := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	r := w.Record(s, Summary{ID: "s1", Process: "p", Door: "run", Title: "fix <it>", State: Idle, Started: started})
	r.Add(Event{Type: TypePrompt, Text: "fix <it> & \u2028 go"})
	for _, piece := range []string{"one ", "two ", "three"} {
		r.Add(Event{Type: TypeText, Message: "m", Text: piece})
	}
	ok := false
	r.Add(Event{Type: TypeText, Message: "n", Text: "another"})
	r.Add(Event{Type: TypeTool, Call: "c", Name: "bash", Args: json.RawMessage(`{"command":"ls"}`)})
	r.Add(Event{Type: TypeResult, Call: "c", OK: &ok, Error: "no\xffne"})
	r.Change(func(s *Summary) { s.State, s.Turns, s.Usage.InputTokens = Ended, 1, 7 })
	end()
	r.Add(Event{Type: TypeClosed}) // too late, and harmless

	got := readAll(t, s, "s1", 2)
	var types, texts []string
	for _, e := range got {
		types, texts = append(types, e.Type), append(texts, e.Text)
	}
	if want := []string{TypePrompt, TypeText, TypeText, TypeTool, TypeResult}; !slices.Equal(types, want) {
		t.Fatalf("%v, not %v", types, want)
	}
	if texts[0] != "fix <it> & \u2028 go" || texts[1] != "one two three" || texts[2] != "another" || string(got[3].Args) != `{"command":"ls"}` || *got[4].OK || got[4].Error != "no\ufffdne" {
		t.Errorf("%q %s %q", texts, got[3].Args, got[4].Error)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0].State != Ended || list[0].Usage.InputTokens != 7 || !list[0].Started.Equal(started) || list[0].Size == 0 {
		t.Errorf("%+v, %v", list, err)
	}
	files, err := os.ReadDir(s.dir)
	if err != nil || len(files) != 2 {
		t.Error(files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Error(info.Mode(), err)
		}
	}

	// Each id is where the next event begins, also backwards.
	for i, e := range got {
		raw, next, err := s.Read("s1", e.ID, 1)
		if i == len(got)-1 {
			if len(raw) != 0 || next != e.ID || err != nil {
				t.Error(raw, next, err)
			}
			continue
		}
		if err != nil || next != got[i+1].ID || decode(t, raw)[0].ID != next {
			t.Errorf("after %d: %s, %d, %v", e.ID, raw, next, err)
		}
	}
	var back []Event
	for before := got[4].ID; before > 0; {
		raw, first, next, err := s.Before("s1", before, 2)
		if err != nil || next != before || first >= before {
			t.Fatal(first, next, err)
		}
		back, before = append(decode(t, raw), back...), first
	}
	if len(back) != len(got) || back[0].ID != got[0].ID || back[4].ID != got[4].ID {
		t.Errorf("%+v", back)
	}
	// An offset that is none means the next event; one beyond the end means nothing.
	if raw, next, err := s.Read("s1", got[0].ID+3, 9); err != nil || len(raw) != 3 || next != got[4].ID {
		t.Error(len(raw), next, err)
	}
	if raw, next, err := s.Read("s1", 1<<40, 9); err != nil || len(raw) != 0 || next != 1<<40 {
		t.Error(len(raw), next, err)
	}
}

// A session that goes on in another process, after one that was killed while it
// wrote: the half line costs nothing else.
func TestATimelineGoesOn(t *testing.T) {
	t.Parallel()
	s := Open(t.TempDir())
	id := "../../etc/an id that is no name"
	for i := range 3 {
		w, end := newWriter(t)
		r := w.Record(s, Summary{ID: id, Process: fmt.Sprint(i), Started: time.Now()})
		r.Add(Event{Type: TypePrompt, Text: fmt.Sprint(i)})
		r.Change(func(s *Summary) { s.State, s.Turns = Idle, 1 })
		end()
		f, err := os.OpenFile(s.base(id)+eventsSuffix, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`{"type":"prom`); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var texts []string
	for _, e := range readAll(t, s, id, 100) {
		texts = append(texts, e.Text)
	}
	if sum, err := s.Summary(id); err != nil || sum.Turns != 3 || sum.Process != "2" || !slices.Equal(texts, []string{"0", "1", "2"}) {
		t.Errorf("%+v, %v, %q", sum, err, texts)
	}
	if err := errors.Join(s.Remove(id), s.Remove(id)); err != nil {
		t.Error(err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

func TestWhatIsLongIsClipped(t *testing.T) {
	t.Parallel()
	s := Open(t.TempDir())
	w, end := newWriter(t)
	r := w.Record(s, Summary{ID: "s"})
	long := strings.Repeat("é", 5<<19) // 5 MiB
	args, err := json.Marshal(map[string]any{"path": "f", "content": long, "edits": []string{long}})
	if err != nil {
		t.Fatal(err)
	}
	many, err := json.Marshal(slices.Repeat([]int{1}, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	r.Add(Event{Type: TypeText, Text: long})
	r.Add(Event{Type: TypeResult, Call: "a", Text: long, Error: "x"})
	r.Add(Event{Type: TypeTool, Call: "a", Args: args})
	r.Add(Event{Type: TypeTool, Call: "b", Args: many})
	end()
	got := readAll(t, s, "s", 100)
	if len(got) != 4 {
		t.Fatal(len(got))
	}
	for i, want := range []int{len(long), len(long), len(args), len(many)} {
		if e := got[i]; e.Clipped != want || len(e.Text) > Most+4 || len(e.Args) > Most {
			t.Errorf("%d: clipped %d of %d, %d bytes of text and %d of arguments are left", i, e.Clipped, want, len(e.Text), len(e.Args))
		}
	}
	var kept struct{ Path, Content string }
	if err := json.Unmarshal(got[2].Args, &kept); err != nil || kept.Path != "f" || !strings.HasPrefix(kept.Content, "éé") {
		t.Error(kept.Path, err)
	}
}

func TestManyEventsAreReadQuickly(t *testing.T) {
	t.Parallel()
	const n = 10_000
	s := Open(t.TempDir())
	w, end := newWriter(t)
	r := w.Record(s, Summary{ID: "s"})
	for i := range n {
		r.Add(Event{Type: TypeTool, Call: fmt.Sprint(i), Name: "bash", Args: json.RawMessage(`{"command":"` + strings.Repeat("x", 200) + `"}`)})
	}
	end()
	before := time.Now()
	got := readAll(t, s, "s", 500)
	forward := time.Since(before)
	if len(got) != n || got[n-1].Call != fmt.Sprint(n-1) {
		t.Fatal(len(got))
	}
	size, err := s.Size("s")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for at := size; at > 0; {
		raw, first, _, err := s.Before("s", at, 500)
		if err != nil || first >= at {
			t.Fatal(first, err)
		}
		count, at = count+len(raw), first
	}
	if count != n || forward > 10*time.Second { // with the race detector, on a busy machine
		t.Error(count, forward)
	}
}

// A file that is full says so and grows no more, whoever goes on with it.
func TestATimelineIsBounded(t *testing.T) {
	t.Parallel()
	s := Open(t.TempDir())
	f, err := os.Create(s.base("s") + eventsSuffix)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(`{"type":"text"}` + "\n")
	if _, err := f.WriteAt(line, fileMost-int64(len(line))+1); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	w, end := newWriter(t)
	r := w.Record(s, Summary{ID: "s"})
	for range 100 {
		r.Add(Event{Type: TypeNotice, Text: "more"})
	}
	end()
	size, err := s.Size("s")
	raw, _, _, berr := s.Before("s", size, 1)
	if err != nil || berr != nil || size > fileMost+200 || decode(t, raw)[0].Type != TypeFull {
		t.Error(size, err, berr, string(raw[0]))
	}
}

func TestPruneRemovesWhatIsOld(t *testing.T) {
	t.Parallel()
	s := Open(filepath.Join(t.TempDir(), "timelines"))
	if removed, err := s.Prune(time.Now()); err != nil || removed != 0 {
		t.Error(removed, err)
	}
	w, end := newWriter(t)
	for _, id := range []string{"old", "new"} {
		w.Record(s, Summary{ID: id}).Add(Event{Type: TypePrompt})
	}
	end()
	past := time.Now().Add(-48 * time.Hour)
	for _, suffix := range []string{eventsSuffix, summarySuffix} {
		if err := os.Chtimes(s.base("old")+suffix, past, past); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := s.Prune(time.Now().Add(-24 * time.Hour))
	if err != nil || removed != 1 {
		t.Error(removed, err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 || list[0].ID != "new" {
		t.Error(list, err)
	}
}

// The library shows the sessions of all processes, with the states that are true.
func TestTheLibraryKnowsWhichProcessesLive(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	p, err := live.Start(home, live.Process{Command: "serve"})
	if err != nil {
		t.Fatal(err)
	}
	l := OpenLibrary(home)
	w, end := newWriter(t)
	at := time.Now()
	for id, sum := range map[string]Summary{
		"runs": {Process: p.ID(), State: Running}, "waits": {Process: "1-dead", State: Waiting, Questions: 1}, "idle": {Process: "1-dead", State: Idle}, "over": {Process: "1-dead", State: Ended},
	} {
		sum.ID = id
		w.Record(l.Kept(), sum)
	}
	chat := w.Record(Open(live.Timelines(home, p.ID())), Summary{ID: "chat", Process: p.ID(), Profile: bridge.ProfileChat, State: Running, Started: at})
	chat.Add(Event{Type: TypePrompt, Text: "hello"})
	end()
	states := func() map[string]State {
		list, err := l.List()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]State{}
		for _, s := range list {
			out[s.ID] = s.State
			if got, _, err := l.Get(s.ID); err != nil || got.State != s.State || got.Questions != 0 {
				t.Errorf("%+v, %v", got, err)
			}
		}
		return out
	}
	want := map[string]State{"runs": Running, "waits": Interrupted, "idle": Ended, "over": Ended, "chat": Running}
	for range 2 { // the second time from memory
		if got := states(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, not %v", got, want)
		}
	}
	if raw, next, err := l.Read("chat", 0, 10); err != nil || len(raw) != 1 || next == 0 {
		t.Error(raw, next, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	want["runs"] = Interrupted
	delete(want, "chat")
	if got := states(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, not %v", got, want)
	}
	if _, _, err := l.Get("chat"); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Error(err)
	}
}
