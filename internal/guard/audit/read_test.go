package audit

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTail(t *testing.T) {
	dir := t.TempDir()
	if got, err := Tail(t.Context(), filepath.Join(dir, "none"), 3); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	threeDays(t, dir)
	for _, tt := range []struct{ n, first, count int }{{0, 0, 0}, {1, 18, 1}, {6, 13, 6}, {7, 12, 7}, {12, 7, 12}, {18, 1, 18}, {100, 1, 18}} {
		got, err := Tail(t.Context(), dir, tt.n)
		if err != nil || len(got) != tt.count {
			t.Fatalf("%d: %d entries, %v", tt.n, len(got), err)
		}
		for i, e := range got {
			if e.Seq != uint64(tt.first+i) {
				t.Errorf("%d: entry %d at %d", tt.n, e.Seq, i)
			}
		}
	}
	// Long lines, and lines that are no entries.
	l := openLog(t, dir, newClock())
	long := strings.Repeat("x", 15<<10)
	for range 12 {
		if err := l.Append(t.Context(), Entry{Hook: HookPostTool, Output: long}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(lastFile(t, dir), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("garbage\n\n" + strings.Repeat("y", maxLine+100) + "\nunfinished"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Tail(t.Context(), dir, 13)
	if err != nil || len(got) != 13 || got[12].Seq != 30 || got[0].Seq != 18 {
		t.Errorf("%d entries, %v", len(got), err)
	}
	if raw, ok := got[12].Output.(json.RawMessage); !ok || len(raw) != len(long)+2 {
		t.Errorf("output of %d bytes", len(raw))
	}
}

// following runs Follow in a goroutine and hands over what it yields.
type following struct {
	entries chan Entry
	errs    chan error
	stop    context.CancelFunc
}

func follow(t *testing.T, dir string, from uint64) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{make(chan Entry), make(chan error), cancel}
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for e, err := range Follow(ctx, dir, from) {
			if err != nil {
				select {
				case f.errs <- err:
				case <-ctx.Done():
				}
				continue
			}
			select {
			case f.entries <- e:
			case <-ctx.Done():
			}
		}
	}()
	return f
}

func (f *following) expect(t *testing.T, from, to uint64) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for seq := from; seq <= to; seq++ {
		select {
		case e := <-f.entries:
			if e.Seq != seq {
				t.Fatalf("entry %d, want %d", e.Seq, seq)
			}
		case err := <-f.errs:
			t.Fatal(err)
		case <-deadline:
			t.Fatalf("entry %d never came", seq)
		}
	}
}

func TestFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	all := follow(t, dir, 0)
	c := newClock()
	l := openLog(t, dir, c)
	appendEntries(t, l, 3)
	all.expect(t, 1, 3)
	c.t = c.t.Add(24 * time.Hour)
	appendEntries(t, l, 2)
	all.expect(t, 4, 5)
	some := follow(t, dir, 5)
	some.expect(t, 5, 5)
	c.t = c.t.Add(24 * time.Hour)
	appendEntries(t, l, 4)
	all.expect(t, 6, 9)
	some.expect(t, 6, 9)
}

func TestFollowSurvives(t *testing.T) {
	dir := t.TempDir()
	c := newClock()
	l := openLog(t, dir, c)
	appendEntries(t, l, 5)
	f := follow(t, dir, 4)
	f.expect(t, 4, 5)

	// An unfinished line is waited for, and complained about when another
	// follows it.
	path := lastFile(t, dir)
	writeFile(t, path, readFile(t, path)+`{"seq":6`)
	appendEntries(t, l, 1)
	select {
	case err := <-f.errs:
		if !strings.Contains(err.Error(), "8 bytes") {
			t.Errorf("error %v", err)
		}
	case e := <-f.entries:
		t.Errorf("entry %d", e.Seq)
	case <-time.After(20 * time.Second):
		t.Fatal("no error")
	}
	f.expect(t, 6, 7)

	// A file that is cut short, and then written to again.
	lines := strings.SplitAfter(readFile(t, path), "\n")
	writeFile(t, path, strings.Join(lines[:2], ""))
	appendEntries(t, l, 1)
	f.expect(t, 8, 9)

	// A file that is replaced by one with a changed entry.
	text := readFile(t, path)
	appendEntries(t, l, 1)
	f.expect(t, 10, 10)
	added := strings.TrimPrefix(readFile(t, path), text)
	changed := strings.Replace(strings.Replace(added, `"seq":10`, `"seq":11`, 1), "allow", "ALLOW", 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, text+added+changed)
	select {
	case err := <-f.errs:
		if !errors.Is(err, errSeal) || !strings.Contains(err.Error(), "entry 11") {
			t.Errorf("error %v", err)
		}
	case e := <-f.entries:
		t.Errorf("entry %d", e.Seq)
	case <-time.After(20 * time.Second):
		t.Fatal("no error")
	}
}

func TestFollowStops(t *testing.T) {
	dir := t.TempDir()
	threeDays(t, dir)
	n := 0
	for range Follow(t.Context(), dir, 0) {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d entries", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for e, err := range Follow(ctx, dir, 0) {
		t.Errorf("%v, %v", e, err)
	}
}

func TestFormat(t *testing.T) {
	e := Entry{Seq: 7, Time: time.Date(2026, 3, 1, 12, 0, 1, 5e6, time.UTC), PID: 42, Hook: HookPreTool, Session: "s1", Door: "acp", Tool: "bash\x1b[31m", Call: "c1",
		Input: json.RawMessage(`{"command":"ls\n\u001b"}`), Output: strings.Repeat("é", 300), Decision: "deny", Reason: "no\nway", Duration: 12.345}
	got := Format(e)
	want := `2026-03-01 12:00:01.005Z #7 pre_tool     deny bash\x1b[31m (no\nway) 12.35ms in={"command":"ls\n\u001b"} out="`
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "… session=s1 door=acp call=c1 pid=42") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if strings.ContainsAny(got, "\n\x1b") {
		t.Errorf("%q", got)
	}
	e.Session, e.Result = "0123456789", &Result{Preview: "a\nb"}
	want = "2026-03-01 12:00:01Z #7 pre_tool deny bash\\x1b[31m (session 01234567)\n    no\\nway\n    {\"command\":\"ls\\n\\u001b\"}\n    a\\nb"
	if got := Brief(e); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got = Format(Entry{Seq: 8, Hook: HookRepair, Reason: string(CauseUnfinished), Repair: &Repair{Cause: CauseUnfinished, File: "audit-2026-03-01.jsonl", Bytes: 12}})
	if !strings.Contains(got, "repair") || !strings.Contains(got, "(unfinished write) 12 bytes in audit-2026-03-01.jsonl") {
		t.Errorf("got %s", got)
	}
}
