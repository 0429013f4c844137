package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

func TestEntries(t *testing.T) {
	dir := t.TempDir()
	c := newClock()
	l, err := Open(dir, Options{Redact: func(v any) any {
		if s, ok := v.(string); ok {
			return strings.ReplaceAll(s, "hunter2", "[REDACTED]")
		}
		return v
	}, MaxField: 200, now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	in := Entry{Hook: HookPermission, Session: "s1", Door: "acp", Tool: "bash", Call: "c1", Input: "password=hunter2 <&>", Output: map[string]any{"text": strings.Repeat("é", 500)},
		Decision: "deny", Reason: "because of hunter2", Duration: 12.5, Seq: 99, Prev: "x", Hash: "y", PrevFile: "z", Repair: &Repair{}}
	if err := l.Append(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), Entry{Hook: HookStop, Reason: strings.Repeat("é", 4000)}); err != nil {
		t.Fatal(err)
	}
	got, err := Tail(t.Context(), dir, 10)
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	e := got[0]
	want := Entry{Seq: 1, Time: time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC), PID: os.Getpid(), Hook: HookPermission, Session: "s1", Door: "acp", Tool: "bash", Call: "c1",
		Decision: "deny", Reason: "because of [REDACTED]", Duration: 12.5, Prev: genesis, Hash: e.Hash}
	if raw, ok := e.Input.(json.RawMessage); !ok || string(raw) != `"password=[REDACTED] <&>"` {
		t.Errorf("input %s", e.Input)
	}
	var out struct {
		Truncated struct {
			Bytes  int
			SHA256 string
			Head   string
		}
	}
	raw, ok := e.Output.(json.RawMessage)
	if !ok || json.Unmarshal(raw, &out) != nil || out.Truncated.Bytes != 1011 || len(out.Truncated.SHA256) != 64 || !strings.HasPrefix(out.Truncated.Head, `{"text":"éé`) || len(raw) > 300 {
		t.Errorf("output %s", e.Output)
	}
	e.Input, e.Output = nil, nil
	if fmt.Sprint(e) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", e, want)
	}
	if got[1].Prev != got[0].Hash || got[1].Seq != 2 || len(got[1].Reason) > maxText {
		t.Errorf("%+v", got[1])
	}
	if in.Reason != "because of hunter2" || in.Seq != 99 {
		t.Error("the caller's entry was changed")
	}
	clean(t, dir, 2)
}

func TestCannotBeEncoded(t *testing.T) {
	l := openLog(t, t.TempDir(), newClock())
	if err := l.Append(t.Context(), Entry{Hook: HookPrompt, Input: math.Inf(1)}); bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("error %v", err)
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil {
		t.Error("a log without redaction")
	}
}

func TestDays(t *testing.T) {
	dir := t.TempDir()
	threeDays(t, dir)
	r := clean(t, dir, 18)
	if r.Files != 3 || r.LastSeq != 18 || len(r.Head) != 64 {
		t.Errorf("%+v", r)
	}
	names, err := files(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"audit-2026-03-01.jsonl", "audit-2026-03-02.jsonl", "audit-2026-03-03.jsonl"}; !slices.Equal(names, want) {
		t.Errorf("files %q", names)
	}
	first, _, _ := strings.Cut(readFile(t, filepath.Join(dir, names[1])), "\n")
	e, err := unseal([]byte(first))
	if err != nil || e.Seq != 8 || e.PrevFile != names[0] {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestClockSetBack(t *testing.T) {
	dir := t.TempDir()
	c := newClock()
	l := openLog(t, dir, c)
	appendEntries(t, l, 2)
	c.t = c.t.Add(-48 * time.Hour)
	appendEntries(t, l, 2)
	appendEntries(t, openLog(t, dir, c), 2)
	if r := clean(t, dir, 6); r.Files != 1 {
		t.Errorf("%+v", r)
	}
}

func TestTwoLogs(t *testing.T) {
	dir := t.TempDir()
	c := newClock()
	a, b := openLog(t, dir, c), openLog(t, dir, c)
	for range 3 {
		appendEntries(t, a, 1)
		appendEntries(t, b, 2)
		c.t = c.t.Add(12 * time.Hour)
	}
	clean(t, dir, 9)
}

func TestConcurrentGoroutines(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{Redact: plain})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				if err := l.Append(t.Context(), Entry{Hook: HookPreTool}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	clean(t, dir, 200)
}

func TestEightProcesses(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		cmd := child(t, "append", dir)
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	clean(t, dir, 800)
	// Each process sees its own entries in its own order.
	entries, err := Tail(t.Context(), dir, 1000)
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	for _, e := range entries {
		if e.Call != fmt.Sprint(next[e.Session]) {
			t.Fatalf("process %s: entry %s after %d others", e.Session, e.Call, next[e.Session])
		}
		next[e.Session]++
	}
	if len(next) != 8 {
		t.Errorf("%d processes", len(next))
	}
}

// TestKilled kills processes that append without pause. What was acknowledged
// must be there, and the log must be clean and go on.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	acknowledged := 0
	for round := range 12 {
		cmd := child(t, "append-forever", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 3 + round {
			if !lines.Scan() {
				t.Fatal("the child has stopped")
			}
			acknowledged++
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			acknowledged++
		}
		_ = cmd.Wait() // killed
		r := verify(t, dir)
		if !r.OK() {
			t.Fatalf("round %d: %v", round, r.Problems)
		}
		if r.Entries < acknowledged || r.Entries > acknowledged+round+1 {
			t.Fatalf("%d entries, but %d were acknowledged", r.Entries, acknowledged)
		}
	}
}

// TestUnfinished cuts the last entry at every byte, as a crash in the middle
// of a write would, and goes on.
func TestUnfinished(t *testing.T) {
	template := t.TempDir()
	threeDays(t, template)
	names, err := files(template)
	if err != nil {
		t.Fatal(err)
	}
	whole := readFile(t, filepath.Join(template, names[2]))
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	last := lines[len(lines)-1] + "\n"
	before := strings.TrimSuffix(whole, last)
	prev, err := unseal([]byte(strings.TrimSuffix(lines[len(lines)-2], "\n")))
	if err != nil {
		t.Fatal(err)
	}
	h, err := json.Marshal(head{Seq: prev.Seq, Hash: prev.Hash, File: names[2]})
	if err != nil {
		t.Fatal(err)
	}
	// A whole entry that lacks only the end of its line is not what a crash
	// leaves: the last byte is written with the others.
	for n := 1; n < len(last)-1; n += 7 {
		for _, nextDay := range []bool{false, true} {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, names[2]), before+last[:n])
			writeFile(t, filepath.Join(dir, headName), string(h))
			if r := verify(t, dir); !r.OK() || r.Repaired != 1 || r.Entries != 17 {
				t.Fatalf("cut at %d: %+v", n, r)
			}
			c := newClock()
			c.t = c.t.Add(48 * time.Hour)
			if nextDay {
				c.t = c.t.Add(24 * time.Hour)
			}
			l := openLog(t, dir, c)
			appendEntries(t, l, 2)
			r := clean(t, dir, 20)
			if r.Repaired != 1 {
				t.Fatalf("cut at %d: %+v", n, r)
			}
			entries, err := Tail(t.Context(), dir, 3)
			if err != nil {
				t.Fatal(err)
			}
			rep := entries[0]
			if rep.Hook != HookRepair || rep.Repair == nil || rep.Repair.Cause != CauseUnfinished || rep.Repair.Bytes != int64(n) ||
				rep.Repair.SHA256 != hexSum([]byte(last[:n])) || rep.Repair.File != names[2] {
				t.Fatalf("cut at %d: %+v", n, rep)
			}
			if !strings.Contains(readFile(t, filepath.Join(dir, names[2])), before+last[:n]) {
				t.Fatal("the unfinished line was removed")
			}
		}
	}
}

// TestCrashBeforeHead checks that head.json may be one entry behind, and is
// brought up to date before it falls further behind.
func TestCrashBeforeHead(t *testing.T) {
	dir := t.TempDir()
	c := newClock()
	l := openLog(t, dir, c)
	appendEntries(t, l, 1)
	// It is there before the first entry, so that a log that was cut down to
	// one entry cannot pass for a new one by losing it.
	first, err := encodeHead(head{Hash: genesis})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, headName), string(first))
	clean(t, dir, 1)
	for n := 2; n < 5; n++ {
		appendEntries(t, l, 1)
		entries, err := Tail(t.Context(), dir, 2)
		if err != nil {
			t.Fatal(err)
		}
		old, err := json.Marshal(head{Seq: entries[0].Seq, Hash: entries[0].Hash, File: filepath.Base(lastFile(t, dir))})
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, headName), string(old))
		clean(t, dir, n)
	}
	appendEntries(t, openLog(t, dir, c), 1)
	clean(t, dir, 5)
}

func TestOneEntryWithoutHeadIsSuspicious(t *testing.T) {
	dir := t.TempDir()
	appendEntries(t, openLog(t, dir, newClock()), 1)
	if err := os.Remove(filepath.Join(dir, headName)); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, dir); r.OK() {
		t.Error("nothing was found")
	}
}

func TestTruncationStaysVisible(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   Kind
	}{
		{"last entries cut off", func(t *testing.T, dir string) {
			path := lastFile(t, dir)
			lines := strings.SplitAfter(readFile(t, path), "\n")
			writeFile(t, path, strings.Join(lines[:2], ""))
		}, KindTruncated},
		{"last file removed", func(t *testing.T, dir string) {
			if err := os.Remove(lastFile(t, dir)); err != nil {
				t.Fatal(err)
			}
		}, KindTruncated},
		{"all files removed", func(t *testing.T, dir string) {
			names, err := files(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}, KindTruncated},
		{"last entry changed", func(t *testing.T, dir string) {
			path := lastFile(t, dir)
			text := readFile(t, path)
			i := strings.LastIndex(text, "allow")
			writeFile(t, path, text[:i]+"ALLOW"+text[i+5:])
		}, KindEdited},
		{"last entry changed and sealed again", func(t *testing.T, dir string) {
			path := lastFile(t, dir)
			lines := strings.SplitAfter(readFile(t, path), "\n")
			e, err := unseal([]byte(strings.TrimSuffix(lines[len(lines)-2], "\n")))
			if err != nil {
				t.Fatal(err)
			}
			e.Decision = "deny"
			line, _, err := seal(e)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, strings.Join(lines[:len(lines)-2], "")+string(line)+"\n")
		}, KindEdited},
		{"head.json removed", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, headName)); err != nil {
				t.Fatal(err)
			}
		}, KindHead},
		{"head.json damaged", func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, headName), "{") }, KindHead},
		{"head.json is old", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, headName), fmt.Sprintf(`{"seq":3,"hash":%q,"file":"audit-2026-03-01.jsonl"}`, genesis))
		}, KindHead},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, warm := range []bool{false, true} {
				dir := t.TempDir()
				threeDays(t, dir)
				c := newClock()
				c.t = c.t.Add(48*time.Hour + time.Hour)
				l := openLog(t, dir, c)
				if warm { // the log remembers where it ended
					appendEntries(t, l, 1)
				}
				tt.damage(t, dir)
				if r := verify(t, dir); !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Kind == tt.want }) {
					t.Errorf("before: %v", r.Problems)
				}
				appendEntries(t, l, 3)
				if r := verify(t, dir); r.OK() {
					t.Errorf("appending has covered it up (%v)", warm)
				}
				appendEntries(t, openLog(t, dir, c), 1)
				if r := verify(t, dir); r.OK() {
					t.Errorf("appending has covered it up later (%v)", warm)
				}
			}
		})
	}
}

func TestExpect(t *testing.T) {
	dir := t.TempDir()
	threeDays(t, dir)
	entries, err := Tail(t.Context(), dir, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{entries[0].Hash, entries[9].Hash, entries[17].Hash} {
		if r, err := Verify(t.Context(), dir, hash); err != nil || !r.OK() {
			t.Errorf("%v, %v", r.Problems, err)
		}
	}
	// A log that is made anew, head.json included, is clean but not the same.
	other := t.TempDir()
	appendEntries(t, openLog(t, other, newClock()), 18)
	if r, err := Verify(t.Context(), other, entries[17].Hash); err != nil || len(r.Problems) != 1 || r.Problems[0].Kind != KindExpect {
		t.Errorf("%v, %v", r.Problems, err)
	}
}

func TestVerifyNothing(t *testing.T) {
	if _, err := Verify(t.Context(), filepath.Join(t.TempDir(), "none"), ""); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Errorf("error %v", err)
	}
	clean(t, t.TempDir(), 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	threeDays(t, dir)
	if _, err := Verify(ctx, dir, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestVerifyWhileAppending(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{Redact: plain})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := l.Append(t.Context(), Entry{Hook: HookPreTool}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 20 {
		if r := verify(t, dir); !r.OK() {
			t.Errorf("%v", r.Problems)
		}
	}
	close(stop)
	wg.Wait()
}

func TestLockedAndClosed(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, newClock())
	unlock, err := durable.Lock(t.Context(), filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = l.Append(ctx, Entry{Hook: HookPreTool})
	if e := bridge.AsError(err); e.Code != bridge.CodeUnavailable || !strings.Contains(e.Remedy, "stuck") {
		t.Errorf("error %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	appendEntries(t, l, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), Entry{Hook: HookPreTool}); bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("error %v", err)
	}
}

func TestSync(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{Redact: plain, Sync: true})
	if err != nil {
		t.Fatal(err)
	}
	appendEntries(t, l, 3)
	clean(t, dir, 3)
}
