package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// witnessedLog is a log whose end is known in another directory too.
type witnessedLog struct {
	dir, witness string
	clock        *clock
}

func newWitnessed(t testing.TB) *witnessedLog {
	t.Helper()
	w := &witnessedLog{dir: filepath.Join(t.TempDir(), "audit"), clock: newClock()}
	var err error
	if w.witness, err = WitnessFile(t.TempDir(), w.dir); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *witnessedLog) open(t testing.TB) *Log {
	t.Helper()
	l, err := Open(w.dir, Options{Redact: plain, Witness: w.witness, now: w.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (w *witnessedLog) verify(t testing.TB) Report {
	t.Helper()
	r, err := Verify(t.Context(), w.dir, "", w.witness)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// anew replaces the log by another whole one.
func (w *witnessedLog) anew(t testing.TB, entries int) {
	t.Helper()
	w.empty(t)
	l := openLog(t, w.dir, w.clock)
	appendEntries(t, l, entries)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// reseal removes the first lines of a file and changes the next entry.
func reseal(t testing.TB, path string, skip int, change func(*Entry)) {
	t.Helper()
	lines := strings.SplitAfter(readFile(t, path), "\n")[skip:]
	e, err := unseal([]byte(strings.TrimSuffix(lines[0], "\n")))
	if err != nil {
		t.Fatal(err)
	}
	change(&e)
	line, _, err := seal(e)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(line)+"\n"+strings.Join(lines[1:], ""))
}

func (w *witnessedLog) empty(t testing.TB) {
	t.Helper()
	names, err := files(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, headName) {
		if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// A log that is known to have been there does not verify when it is gone or
// another one, neither at once nor after more was written.
func TestWitnessMissesWhatIsGone(t *testing.T) {
	for name, tamper := range map[string]func(t *testing.T, w *witnessedLog){
		"log and head removed": func(t *testing.T, w *witnessedLog) { w.empty(t) },
		"directory removed": func(t *testing.T, w *witnessedLog) {
			if err := os.RemoveAll(w.dir); err != nil {
				t.Fatal(err)
			}
		},
		"directory moved away": func(t *testing.T, w *witnessedLog) {
			if err := os.Rename(w.dir, w.dir+"-old"); err != nil {
				t.Fatal(err)
			}
		},
		"a shorter log":    func(t *testing.T, w *witnessedLog) { w.anew(t, 3) },
		"one as long":      func(t *testing.T, w *witnessedLog) { w.anew(t, 18) },
		"a longer one":     func(t *testing.T, w *witnessedLog) { w.anew(t, 40) },
		"one entry longer": func(t *testing.T, w *witnessedLog) { w.anew(t, 19) },
		"the end cut off, and head.json with it": func(t *testing.T, w *witnessedLog) {
			if err := os.Remove(lastFile(t, w.dir)); err != nil {
				t.Fatal(err)
			}
			tail, err := readTail(w.dir, filepath.Base(lastFile(t, w.dir)))
			if err != nil {
				t.Fatal(err)
			}
			writeHead(t, w.dir, head{Seq: tail.last.Seq, Hash: tail.last.Hash, File: tail.name})
		},
		"the witness removed": func(t *testing.T, w *witnessedLog) {
			if err := os.Remove(w.witness); err != nil {
				t.Fatal(err)
			}
		},
		"the witness emptied": func(t *testing.T, w *witnessedLog) { writeFile(t, w.witness, "") },
		"the witness and the end removed": func(t *testing.T, w *witnessedLog) {
			if err := errors.Join(os.Remove(w.witness), os.Remove(lastFile(t, w.dir))); err != nil {
				t.Fatal(err)
			}
			tail, err := readTail(w.dir, filepath.Base(lastFile(t, w.dir)))
			if err != nil {
				t.Fatal(err)
			}
			writeHead(t, w.dir, head{Seq: tail.last.Seq, Hash: tail.last.Hash, File: tail.name})
		},
		"a segment from the middle removed": func(t *testing.T, w *witnessedLog) {
			if err := os.Remove(filepath.Join(w.dir, "audit-2026-03-02.jsonl")); err != nil {
				t.Fatal(err)
			}
		},
		"the oldest segment emptied": func(t *testing.T, w *witnessedLog) {
			writeFile(t, filepath.Join(w.dir, "audit-2026-03-01.jsonl"), "")
		},
		"the oldest segment and the beginning of the next removed": func(t *testing.T, w *witnessedLog) {
			second := filepath.Join(w.dir, "audit-2026-03-02.jsonl")
			_, rest, _ := strings.Cut(readFile(t, second), "\n")
			writeFile(t, second, rest)
			if err := os.Remove(filepath.Join(w.dir, "audit-2026-03-01.jsonl")); err != nil {
				t.Fatal(err)
			}
		},
		"the beginning of the open segment, and all before it": func(t *testing.T, w *witnessedLog) {
			_, rest, _ := strings.Cut(readFile(t, lastFile(t, w.dir)), "\n")
			writeFile(t, lastFile(t, w.dir), rest)
			if err := errors.Join(os.Remove(filepath.Join(w.dir, "audit-2026-03-01.jsonl")), os.Remove(filepath.Join(w.dir, "audit-2026-03-02.jsonl"))); err != nil {
				t.Fatal(err)
			}
		},
		"the closed segments and the end": func(t *testing.T, w *witnessedLog) {
			first, _, _ := strings.Cut(readFile(t, lastFile(t, w.dir)), "\n")
			writeFile(t, lastFile(t, w.dir), first+"\n")
			if err := errors.Join(os.Remove(filepath.Join(w.dir, "audit-2026-03-01.jsonl")), os.Remove(filepath.Join(w.dir, "audit-2026-03-02.jsonl"))); err != nil {
				t.Fatal(err)
			}
		},
		"a summary changed, its segment removed": func(t *testing.T, w *witnessedLog) {
			second := filepath.Join(w.dir, "audit-2026-03-02.jsonl")
			writeFile(t, second, strings.Replace(readFile(t, second), `"last":7`, `"last":6`, 1))
			if err := os.Remove(filepath.Join(w.dir, "audit-2026-03-01.jsonl")); err != nil {
				t.Fatal(err)
			}
		},
		"a summary made up and sealed": func(t *testing.T, w *witnessedLog) {
			second := filepath.Join(w.dir, "audit-2026-03-02.jsonl")
			reseal(t, second, 1, func(e *Entry) { // its true first line is gone
				e.PrevFile = "audit-2026-03-01.jsonl"
				e.Segment = &Segment{File: e.PrevFile, First: 1, Last: e.Seq - 1, LastHash: e.Prev}
			})
			if err := os.Remove(filepath.Join(w.dir, "audit-2026-03-01.jsonl")); err != nil {
				t.Fatal(err)
			}
		},
		"another log that begins with a summary": func(t *testing.T, w *witnessedLog) {
			w.empty(t)
			name := "audit-2026-03-09.jsonl"
			line, hash, err := seal(Entry{Seq: 501, Hook: HookStart, PrevFile: "audit-2026-03-08.jsonl", Prev: genesis,
				Segment: &Segment{File: "audit-2026-03-08.jsonl", First: 1, Last: 500, LastHash: genesis}})
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(w.dir, name), string(line)+"\n")
			writeHead(t, w.dir, head{Seq: 501, Hash: hash, File: name})
		},
	} {
		for _, warm := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newWitnessed(t)
				l := w.open(t)
				for _, n := range []int{7, 5, 6} {
					appendEntries(t, l, n)
					w.clock.t = w.clock.t.Add(24 * time.Hour)
				}
				if r := w.verify(t); !r.OK() || r.Entries != 18 {
					t.Fatalf("before: %+v", r)
				}
				tamper(t, w)
				if r := w.verify(t); r.OK() {
					t.Errorf("it verifies: %+v", r)
				}
				if warm {
					// Where the directory is gone this may fail; it must not
					// cover anything up.
					_ = l.Append(t.Context(), Entry{Hook: HookStop})
				}
				later := w.open(t)
				appendEntries(t, later, 2)
				if r := w.verify(t); r.OK() {
					t.Errorf("writing on has covered it up: %+v", r)
				}
				appendEntries(t, w.open(t), 30)
				if r := w.verify(t); r.OK() {
					t.Errorf("writing on has covered it up later: %+v", r)
				}
			})
		}
	}
}

// What happens without anybody's doing is no problem.
func TestWitnessOfAnHonestLog(t *testing.T) {
	ok := func(t *testing.T, w *witnessedLog, entries int) {
		t.Helper()
		if r := w.verify(t); !r.OK() || r.Entries != entries {
			t.Errorf("%+v, want %d entries", r, entries)
		}
	}
	t.Run("a log from before there was a witness", func(t *testing.T) {
		w := newWitnessed(t)
		appendEntries(t, openLog(t, w.dir, w.clock), 5)
		ok(t, w, 5)
		if !w.verify(t).Unwitnessed {
			t.Error("nobody is told that nothing witnesses its end")
		}
		appendEntries(t, w.open(t), 2)
		ok(t, w, 7)
	})
	t.Run("entries of a process that has none", func(t *testing.T) {
		w := newWitnessed(t)
		appendEntries(t, w.open(t), 3)
		appendEntries(t, openLog(t, w.dir, w.clock), 4)
		ok(t, w, 7)
		appendEntries(t, w.open(t), 1)
		ok(t, w, 8)
	})
	t.Run("a crash before the witness was written", func(t *testing.T) {
		w := newWitnessed(t)
		l := w.open(t)
		appendEntries(t, l, 3)
		before := readFile(t, w.witness)
		appendEntries(t, l, 1)
		writeFile(t, w.witness, before)
		ok(t, w, 4)
		appendEntries(t, w.open(t), 1)
		ok(t, w, 5)
	})
	t.Run("a crash before the witness was written for the first time", func(t *testing.T) {
		w := newWitnessed(t)
		if err := os.MkdirAll(w.witness, 0o700); err != nil { // nothing can be written there
			t.Fatal(err)
		}
		l := w.open(t)
		if err := l.Append(t.Context(), Entry{Hook: HookStart}); err == nil {
			t.Error("an entry without its witness")
		}
		if err := os.Remove(w.witness); err != nil {
			t.Fatal(err)
		}
		ok(t, w, 0)
	})
	t.Run("a log with another witness", func(t *testing.T) {
		w := newWitnessed(t)
		appendEntries(t, w.open(t), 3)
		w.witness += "-other"
		ok(t, w, 3)
		if !w.verify(t).Unwitnessed {
			t.Error("nobody is told that nothing witnesses its end")
		}
	})
	t.Run("several processes", func(t *testing.T) {
		w := newWitnessed(t)
		var wg sync.WaitGroup
		for range 4 {
			l, err := Open(w.dir, Options{Redact: plain, Witness: w.witness})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			wg.Go(func() { appendEntries(t, l, 25) })
		}
		wg.Wait()
		ok(t, w, 100)
	})
	t.Run("begun anew on purpose", func(t *testing.T) {
		w := newWitnessed(t)
		appendEntries(t, w.open(t), 3)
		w.empty(t)
		if err := os.Remove(w.witness); err != nil {
			t.Fatal(err)
		}
		ok(t, w, 0)
		appendEntries(t, w.open(t), 2)
		ok(t, w, 2)
	})
}

func BenchmarkAppendWitnessed(b *testing.B) {
	w := newWitnessed(b)
	l := w.open(b)
	e := Entry{Hook: HookPreTool, Session: "session", Door: "acp", Tool: "bash", Input: map[string]any{"command": "go test ./..."}, Decision: "allow"}
	for b.Loop() {
		if err := l.Append(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}
