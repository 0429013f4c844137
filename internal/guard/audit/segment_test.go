package audit

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// remove removes files of a log.
func remove(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

var threeNames = []string{"audit-2026-03-01.jsonl", "audit-2026-03-02.jsonl", "audit-2026-03-03.jsonl"}

// days makes a witnessed log of 7, 5 and 6 entries in three segments.
func (w *witnessedLog) days(t testing.TB) *Log {
	t.Helper()
	l := w.open(t)
	for _, n := range []int{7, 5, 6} {
		appendEntries(t, l, n)
		w.clock.t = w.clock.t.Add(24 * time.Hour)
	}
	return l
}

// The oldest segments may go; the rest verifies, also after more was written,
// and names the entries that are gone.
func TestOldSegmentsMayGo(t *testing.T) {
	for n, last := range []uint64{0, 7, 12} {
		w := newWitnessed(t)
		l := w.days(t)
		remove(t, w.dir, threeNames[:n]...)
		for range 2 {
			r := w.verify(t)
			if !r.OK() || n == 0 && r.Gone != nil {
				t.Fatalf("%d segments gone: %+v", n, r)
			}
			if n > 0 {
				g := r.Gone
				if g == nil || g.Last != last || g.File != threeNames[n-1] || g.By.Seq != last+1 || g.By.Path != filepath.Join(w.dir, threeNames[n]) || g.Pruned != 0 || g.From.IsZero() || !g.To.After(g.From) {
					t.Errorf("%d segments gone: %+v", n, g)
				}
				if text := g.String(); !strings.HasPrefix(text, fmt.Sprintf("entries 1 to %d are no longer here: entry %d in ", last, last+1)) || !strings.Contains(text, "no entry says who") {
					t.Errorf("%s", text)
				}
			}
			appendEntries(t, l, 3)
			appendEntries(t, w.open(t), 1)
		}
	}
}

// A log that was written before there were segments gets them from now on, and
// nothing of it is lost.
func TestCarriedOver(t *testing.T) {
	old := func(t *testing.T) (string, *clock) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("testdata/before-segments")); err != nil {
			t.Fatal(err)
		}
		clean(t, dir, 18)
		c := newClock()
		c.t = c.t.Add(72 * time.Hour)
		appendEntries(t, openLog(t, dir, c), 2)
		return dir, c
	}
	dir, _ := old(t)
	clean(t, dir, 20)
	entries, err := Tail(t.Context(), dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	s := entries[0].Segment
	if s == nil || s.File != threeNames[2] || s.First != 13 || s.Last != 18 || s.LastHash != entries[0].Prev || entries[1].Segment != nil {
		t.Fatalf("%+v", entries)
	}
	// Nothing closes its own files but the last; so they go together.
	remove(t, dir, threeNames[0])
	if verify(t, dir).OK() {
		t.Error("entries are missing that no summary covers")
	}
	dir, c := old(t)
	for age, want := range map[time.Duration]int{0: 3, 48 * time.Hour: 0} {
		if o, err := OlderThan(t.Context(), dir, c.t.Add(-age)); err != nil || len(o.Files) != want {
			t.Errorf("%+v, %v", o, err)
		}
	}
	if o, err := openLog(t, dir, c).Prune(t.Context(), c.t); err != nil || o.First != 1 || o.Last != 18 {
		t.Errorf("%+v, %v", o, err)
	}
	if r := clean(t, dir, 3); r.Gone == nil || r.Gone.Last != 18 {
		t.Errorf("%+v", r)
	}
}

func TestSegmentsBySize(t *testing.T) {
	w := newWitnessed(t)
	open := func() *Log {
		l, err := Open(w.dir, Options{Redact: plain, Witness: w.witness, now: w.clock.now, segmentSize: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	all := follow(t, w.dir, 0)
	l := open()
	for n := range uint64(30) { // two processes, as it were
		appendEntries(t, []*Log{l, open()}[n%2], 1)
	}
	all.expect(t, 1, 30)
	w.clock.t = w.clock.t.Add(24 * time.Hour)
	appendEntries(t, l, 1)
	all.expect(t, 31, 31)
	if r := w.verify(t); !r.OK() || r.Entries != 31 {
		t.Fatalf("%+v", r)
	}
	names, err := files(w.dir)
	if err != nil || len(names) < 8 || names[0] != threeNames[0] || names[1] != "audit-2026-03-01_0002.jsonl" || names[len(names)-1] != threeNames[1] {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names[1:] {
		if e, err := firstEntry(filepath.Join(w.dir, name)); err != nil || !e.closes() {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	remove(t, w.dir, names[:4]...)
	if r := w.verify(t); !r.OK() || r.Gone == nil {
		t.Errorf("%+v", r)
	}
	entries, err := Tail(t.Context(), w.dir, 100)
	if err != nil || len(entries) != 31-int(w.verify(t).Gone.Last) {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if got := Format(entries[0]); !strings.Contains(got, "closes "+names[3]+" (#") {
		t.Error(got)
	}
}

// A segment that was moved away is verified by itself, with the summary in
// the segment after it, wherever that is.
func TestVerifyFile(t *testing.T) {
	w := newWitnessed(t)
	w.days(t)
	moved := t.TempDir()
	for _, name := range threeNames[:2] {
		if err := os.Rename(filepath.Join(w.dir, name), filepath.Join(moved, name)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name, expect string) Report {
		t.Helper()
		r, err := VerifyFile(t.Context(), filepath.Join(moved, name), w.dir, expect)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i, want := range []Holder{{8, filepath.Join(moved, threeNames[1])}, {13, filepath.Join(w.dir, threeNames[2])}} {
		if r := check(threeNames[i], ""); !r.OK() || r.ClosedBy == nil || *r.ClosedBy != want || r.Entries != []int{7, 5}[i] {
			t.Errorf("%+v", r)
		}
	}
	second := filepath.Join(moved, threeNames[1])
	text := readFile(t, second)
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	for name, changed := range map[string]string{
		"edited":        strings.Replace(text, "allow", "deny ", 1),
		"end cut off":   strings.Join(lines[:3], ""),
		"begin cut off": strings.Join(lines[1:], ""),
		"middle cut":    lines[0] + strings.Join(lines[2:], ""),
		"garbage":       text + "{}\n",
		"empty":         "",
	} {
		writeFile(t, second, changed)
		if r := check(threeNames[1], ""); r.OK() {
			t.Errorf("%s: it verifies: %+v", name, r)
		}
	}
	writeFile(t, second, text)
	last := check(threeNames[1], "").Head
	if r := check(threeNames[1], last); !r.OK() {
		t.Errorf("%+v", r)
	}
	if r := check(threeNames[0], last); r.OK() {
		t.Error("the hash of another segment was found in it")
	}
	// The open one has no summary yet.
	r, err := VerifyFile(t.Context(), lastFile(t, w.dir), w.dir, "")
	if err != nil || !r.OK() || r.ClosedBy != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPrune(t *testing.T) {
	w := newWitnessed(t)
	l := w.days(t)
	second := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	old, err := OlderThan(t.Context(), w.dir, second)
	if err != nil || !slices.Equal(old.Files, threeNames[:1]) || old.First != 1 || old.Last != 7 || old.Bytes == 0 {
		t.Fatalf("%+v, %v", old, err)
	}
	if r := w.verify(t); r.Entries != 18 {
		t.Fatalf("looking has changed it: %+v", r)
	}
	if _, err := l.Prune(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	r := w.verify(t)
	if !r.OK() || r.Entries != 12 || r.Gone == nil || r.Gone.Last != 7 || r.Gone.Pruned != 19 || !strings.Contains(r.Gone.String(), "entry 19 records that they were deleted") {
		t.Fatalf("%+v", r)
	}
	// The second time it continues where it stopped, and the open segment stays.
	if old, err = l.Prune(t.Context(), w.clock.t.Add(time.Hour)); err != nil || old.First != 8 || old.Last != 18 {
		t.Fatalf("%+v, %v", old, err)
	}
	if r := w.verify(t); !r.OK() || r.Gone.Last != 18 || r.Files != 1 {
		t.Fatalf("%+v", r)
	}
	if old, err = l.Prune(t.Context(), w.clock.t.Add(time.Hour)); err != nil || len(old.Files) != 0 {
		t.Fatalf("%+v, %v", old, err)
	}
	// A changed segment is not deleted: it proves the change.
	w = newWitnessed(t)
	l = w.days(t)
	first := filepath.Join(w.dir, threeNames[0])
	writeFile(t, first, strings.Replace(readFile(t, first), "allow", "deny ", 1))
	_, err = l.Prune(t.Context(), w.clock.t)
	if bridge.CodeOf(err) != bridge.CodeConflict || !strings.Contains(err.Error(), "entry 1 was changed") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(first); err != nil {
		t.Error(err)
	}
}

func TestKeep(t *testing.T) {
	w := newWitnessed(t)
	l, err := Open(w.dir, Options{Redact: plain, Witness: w.witness, now: w.clock.now, Keep: 60 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		appendEntries(t, l, 2)
		l.pruning.Wait()
		w.clock.t = w.clock.t.Add(24 * time.Hour)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := files(w.dir)
	if err != nil || !slices.Equal(names, []string{"audit-2026-03-04.jsonl", "audit-2026-03-05.jsonl", "audit-2026-03-06.jsonl"}) {
		t.Errorf("%q, %v", names, err)
	}
	if r := w.verify(t); !r.OK() || r.Gone == nil || r.Gone.Pruned == 0 {
		t.Errorf("%+v", r)
	}
}

// Processes that close segments every second entry, and others that delete
// them, are killed without warning, several at once. The log verifies each
// time, and the last acknowledged entry is there.
func TestKilledWhileClosing(t *testing.T) {
	for _, role := range []string{"segments-forever", "prune-forever"} {
		t.Run(role, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			most := uint64(0)
			for round := range 12 {
				var wg sync.WaitGroup
				for range 3 {
					cmd := child(t, role, dir)
					wg.Go(func() { killAfter(t, cmd, 5+round*2) })
				}
				wg.Wait()
				r, err := Verify(context.Background(), dir, "", dir+"-witness.json")
				if err != nil || !r.OK() {
					t.Fatalf("round %d: %v, %+v", round, err, r)
				}
				if most += uint64(3 * (5 + round*2)); r.LastSeq < most {
					t.Fatalf("round %d: %d entries, but %d were acknowledged", round, r.LastSeq, most)
				}
				most = r.LastSeq
			}
			// Whatever they have left can be pruned, and written on.
			l, err := Open(dir, Options{Redact: plain, Witness: dir + "-witness.json", segmentSize: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			appendEntries(t, l, 1)
			if old, err := l.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil || len(old.Files) == 0 {
				t.Errorf("%+v, %v", old, err)
			}
			if r, err := Verify(t.Context(), dir, "", dir+"-witness.json"); err != nil || !r.OK() || r.Gone == nil || r.Gone.Last < most {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// killAfter kills a child that has told of n entries.
func killAfter(t *testing.T, cmd *exec.Cmd, n int) {
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	lines := bufio.NewScanner(out)
	for range n {
		if !lines.Scan() {
			t.Error("the child has stopped")
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
}

// A process remembers the last entry that it wrote. Whatever becomes of the
// directory and the witness under it, the break is on record.
func TestGoneUnderAWriter(t *testing.T) {
	for name, others := range map[string]int{"nobody else": 0, "another begins anew": 3, "another writes more": 40} {
		t.Run(name, func(t *testing.T) {
			w := newWitnessed(t)
			l := w.days(t)
			if err := os.Rename(w.dir, w.dir+"-old"); err != nil {
				t.Fatal(err)
			}
			remove(t, filepath.Dir(w.witness), filepath.Base(w.witness))
			if others > 0 {
				appendEntries(t, w.open(t), others)
			}
			appendEntries(t, l, 1)
			if r := w.verify(t); r.OK() {
				t.Errorf("a new log verifies: %+v", r)
			}
			appendEntries(t, w.open(t), 5)
			if r := w.verify(t); r.OK() {
				t.Errorf("writing on has covered it up: %+v", r)
			}
		})
	}
}
