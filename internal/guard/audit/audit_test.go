package audit

import (
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

	"github.com/copilot-bridge/copilot-bridge/bridge"
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
		if r, err := Verify(t.Context(), dir, hash, ""); err != nil || !r.OK() {
			t.Errorf("%v, %v", r.Problems, err)
		}
	}
	// A log that is made anew, head.json included, is clean but not the same.
	other := t.TempDir()
	appendEntries(t, openLog(t, other, newClock()), 18)
	if r, err := Verify(t.Context(), other, entries[17].Hash, ""); err != nil || len(r.Problems) != 1 || r.Problems[0].Kind != KindExpect {
		t.Errorf("%v, %v", r.Problems, err)
	}
}

func TestVerifyNothing(t *testing.T) {
	if _, err := Verify(t.Context(), filepath.Join(t.TempDir(), "none"), "", ""); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Errorf("error %v", err)
	}
	clean(t, t.TempDir(), 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	threeDays(t, dir)
	if _, err := Verify(ctx, dir, "", ""); !errors.Is(err, context.Canceled) {
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
