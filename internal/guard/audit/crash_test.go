package audit

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKilled kills processes that append without pause. Every acknowledged
// entry must be there, and the log must be clean and take further entries.
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
// of a write would, and continues.
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
