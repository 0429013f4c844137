//go:build unix

package timeline

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A disk that takes nothing never makes a turn wait: what does not fit into the
// queue is counted.
func TestASlowDiskNeverBlocks(t *testing.T) {
	t.Parallel()
	s := Open(t.TempDir())
	file := s.base("s") + eventsSuffix
	w, end := newWriter(t)
	r := w.Record(s, Summary{ID: "s"})
	r.Add(Event{Type: TypePrompt, Text: "first"})
	waitFor(t, func() bool { size, err := s.Size("s"); return err == nil && size > 0 })
	// A pipe without a reader stands for the disk: opening it waits.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	piece := strings.Repeat("x", 32<<10)
	const n = 1000 // 32 MiB
	slowest := time.Duration(0)
	for range n {
		before := time.Now()
		r.Add(Event{Type: TypeResult, Text: piece})
		slowest = max(slowest, time.Since(before))
	}
	if slowest > time.Second {
		t.Error("an event took", slowest)
	}
	w.mu.Lock()
	waiting := w.queued
	w.mu.Unlock()
	if waiting > queueMost {
		t.Error(waiting, "bytes wait")
	}
	read := make(chan []byte, 1)
	go func() {
		f, err := os.Open(file)
		if err != nil {
			t.Error(err)
			read <- nil
			return
		}
		defer f.Close()
		// The writer opens the pipe once more for what waited meanwhile.
		var all []byte
		for !bytes.Contains(all, []byte(`"gap"`)) {
			data, err := io.ReadAll(f)
			if err != nil {
				t.Error(err)
			}
			all = append(all, data...)
		}
		read <- all
	}()
	all := <-read
	end()
	kept, missing := 0, 0
	for line := range bytes.Lines(all) {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if kept++; e.Type == TypeGap {
			kept--
			missing += e.Count
		}
	}
	if kept+missing != n || kept < 100 || missing < 100 {
		t.Errorf("%d events were kept and %d are missing, of %d", kept, missing, n)
	}
}

func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ready(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}
