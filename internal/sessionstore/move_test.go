package sessionstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// many is a document of the one file of older versions, with its entries.
func many(t *testing.T, n int) (data []byte, entries []Entry) {
	t.Helper()
	doc := &document{}
	for i := range n {
		e := sample(fmt.Sprintf("%08x-old", i*2654435761&0xffffffff))
		e.Created, e.Updated = noon.Add(-time.Duration(i)*time.Minute), noon.Add(-time.Duration(i)*time.Second)
		e.Turns, entries = i, append(entries, e)
	}
	for _, e := range entries {
		doc.records = append(doc.records, record{entry: e})
	}
	data, err := doc.encode()
	if err != nil {
		t.Fatal(err)
	}
	return data, entries
}

// TestMove: the sessions of an older version's file are all there before,
// while and after they are moved.
func TestMove(t *testing.T) {
	s := newStore(t)
	data, want := many(t, 500)
	seed(t, s, string(data))
	if got, err := s.List(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("before the move there are %d, %v", len(got), err)
	}
	put(t, s, sample("new")) // updated at noon, as the first of the others
	got, err := s.List(t.Context())
	if err != nil || len(got) != 501 {
		t.Fatalf("%d, %v", len(got), err)
	}
	if _, err := os.Stat(s.single()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old file is still there: %v", err)
	}
	for _, e := range want {
		if got, err := s.Find(t.Context(), e.ID); err != nil || got != e {
			t.Fatalf("%+v, %v; want %+v", got, err, e)
		}
	}

	// An older program that still runs writes its file again.
	newer, older := want[7], want[8]
	newer.Title, newer.Updated = "newer", noon.Add(time.Hour)
	older.Title, older.Updated = "older", noon.Add(-time.Hour)
	doc := &document{records: []record{{entry: newer}, {entry: older}}}
	again, err := doc.encode()
	if err != nil {
		t.Fatal(err)
	}
	seed(t, s, string(again))
	check := func() {
		t.Helper()
		for _, want := range []Entry{newer, want[8]} {
			if got, err := s.Get(t.Context(), want.ID); err != nil || got != want {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
		}
		if got, err := s.List(t.Context()); err != nil || len(got) != 501 || got[0] != newer {
			t.Errorf("%d, %v", len(got), err)
		}
	}
	check()
	if err := s.Delete(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	put(t, s, sample("new"))
	check()
}

// TestKilledMove kills processes that move an older version's file: nothing of
// it is lost, and nothing is there twice.
func TestKilledMove(t *testing.T) {
	data, want := many(t, 400)
	for round := range 8 {
		s := Open(filepath.Join(t.TempDir(), "sessions"))
		seed(t, s, string(data))
		cmd := putter(t, s.dir, "x", 1)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Somewhere on the way: when so many files are there.
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			if files, _ := filepath.Glob(filepath.Join(s.dir, "?", "??.json")); len(files) >= 1+40*round {
				break
			}
		}
		_ = cmd.Process.Kill() // it may have ended
		if err := cmd.Wait(); err != nil {
			var killed *exec.ExitError
			if !errors.As(err, &killed) || killed.ExitCode() != -1 {
				t.Fatal(err)
			}
		}
		for _, when := range []string{"after the kill", "after the next change"} {
			have := ids(t, s)
			for _, e := range want {
				if !have[e.ID] {
					t.Fatalf("round %d: %s is lost %s", round, e.ID, when)
				}
			}
			put(t, s, sample("x-0000"))
		}
		if got, err := s.List(t.Context()); err != nil || len(got) != 401 {
			t.Errorf("round %d: %d, %v", round, len(got), err)
		}
	}
}

// TestLongList: a hundred thousand sessions are listed, found and changed
// rightly.
func TestLongList(t *testing.T) {
	const n = 100_000
	s := newStore(t)
	files := map[string]*document{}
	var want []Entry
	for i := range n {
		e := sample(fmt.Sprintf("%08x-%d", i*2654435761&0xffffffff, i))
		e.Created, e.Updated = noon, noon.Add(-time.Duration(i)*time.Second)
		want = append(want, e)
		if files[s.fileOf(e.ID)] == nil {
			files[s.fileOf(e.ID)] = &document{}
		}
		doc := files[s.fileOf(e.ID)]
		doc.records = append(doc.records, record{entry: e})
	}
	if len(files) != 4096 {
		t.Errorf("%d files", len(files))
	}
	for path, doc := range files {
		data, err := doc.encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.List(t.Context())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d sessions, %v", len(got), err)
	}
	for _, i := range []int{0, n / 2, n - 1} {
		if e, err := s.Get(t.Context(), want[i].ID[:9]); err != nil || e != want[i] {
			t.Errorf("%+v, %v", e, err)
		}
	}
	s.now = func() time.Time { return noon.Add(time.Hour) }
	last := want[n-1].ID
	if err := s.Update(t.Context(), last, func(e *Entry) error { e.Turns++; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), want[0].ID); err != nil {
		t.Fatal(err)
	}
	got, err = s.List(t.Context())
	if err != nil || len(got) != n-1 || got[0].ID != last || got[0].Turns != 1 || got[1] != want[1] {
		t.Errorf("%d sessions, the first %+v, %v", len(got), got[0], err)
	}
}
