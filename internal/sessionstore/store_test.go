package sessionstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

var noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

// newStore returns a store on a new path, with a clock that stands at noon.
func newStore(t *testing.T) *Store {
	t.Helper()
	s := Open(filepath.Join(t.TempDir(), "home", "sessions"))
	s.now = func() time.Time { return noon }
	return s
}

func put(t *testing.T, s *Store, entries ...Entry) {
	t.Helper()
	for _, e := range entries {
		if err := s.Put(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// getFirst returns the entry s-1, with which most tests work.
func getFirst(t *testing.T, s *Store) Entry {
	t.Helper()
	e, err := s.Get(t.Context(), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func wantCode(t *testing.T, err error, code bridge.Code) {
	t.Helper()
	if bridge.CodeOf(err) != code {
		t.Errorf("error %v has code %q, want %q", err, bridge.CodeOf(err), code)
	}
}

func aged(id string, state State, hours int) Entry {
	e := sample(id)
	e.State = state
	e.Updated = noon.Add(-time.Duration(hours) * time.Hour)
	return e
}

func idsOf(entries []Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.ID)
	}
	return strings.Join(all, " ")
}

func TestOpenAndReadTouchNothing(t *testing.T) {
	s := newStore(t)
	entries, err := s.List(t.Context())
	if err != nil || entries == nil || len(entries) != 0 {
		t.Errorf("list of a missing file: %v, %v; want an empty list", entries, err)
	}
	_, err = s.Get(t.Context(), "none")
	wantCode(t, err, bridge.CodeNotFound)
	if _, err := os.Stat(filepath.Dir(s.dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made the directory: %v", err)
	}
}

func TestPutAndGet(t *testing.T) {
	s := newStore(t)
	e := sample("s-1")
	e.Turns, e.InputTokens, e.OutputTokens = 2, 1<<40, 7
	e.Created = time.Date(2025, 1, 1, 1, 0, 0, 123456789, time.FixedZone("", 3600))
	put(t, s, e)

	want := e
	want.Created = time.Date(2025, 1, 1, 0, 0, 0, 123e6, time.UTC)
	want.Updated = noon
	if got := getFirst(t, s); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	// A replacement without times keeps the first one's birth.
	replacement := sample("s-1")
	replacement.Title = "new"
	s.now = func() time.Time { return noon.Add(time.Hour) }
	put(t, s, sample("s-2"), replacement)
	got := getFirst(t, s)
	if got.Title != "new" || got.Turns != 0 || !got.Created.Equal(want.Created) || !got.Updated.Equal(noon.Add(time.Hour)) {
		t.Errorf("after the replacement: %+v", got)
	}
	if entries, err := s.List(t.Context()); err != nil || len(entries) != 2 {
		t.Errorf("list: %v, %v", entries, err)
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(s.fileOf("s-1"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, want 0600", info.Mode())
		}
	}
}

func TestPutRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Entry)
	}{
		{"no id", func(e *Entry) { e.ID = "" }},
		{"id not text", func(e *Entry) { e.ID = "a\xff" }},
		{"no state", func(e *Entry) { e.State = "" }},
		{"unknown state", func(e *Entry) { e.State = "resting" }},
		{"no profile", func(e *Entry) { e.Profile = "" }},
		{"unknown profile", func(e *Entry) { e.Profile = "both" }},
		{"year 10000", func(e *Entry) { e.Updated = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			e := sample("s-1")
			tt.change(&e)
			wantCode(t, s.Put(t.Context(), e), bridge.CodeInvalid)
			if _, err := os.Stat(s.dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file was written: %v", err)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	s := newStore(t)
	put(t, s, aged("s-1", StateActive, 5))
	err := s.Update(t.Context(), "s-1", func(e *Entry) error {
		e.State = StateFailed
		e.Turns++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := getFirst(t, s); got.State != StateFailed || got.Turns != 1 || !got.Updated.Equal(noon) {
		t.Errorf("after the update: %+v", got)
	}

	later := noon.Add(time.Minute)
	if err := s.Update(t.Context(), "s-1", func(e *Entry) error { e.Updated = later; return nil }); err != nil {
		t.Fatal(err)
	}
	if got := getFirst(t, s); !got.Updated.Equal(later) {
		t.Errorf("updated %v, want what the function set", got.Updated)
	}
}

func TestUpdateRefuses(t *testing.T) {
	s := newStore(t)
	put(t, s, sample("long-id-1"))
	before := read(t, s.fileOf("long-id-1"))
	failure := errors.New("no")

	wantCode(t, s.Update(t.Context(), "long", func(*Entry) error { return nil }), bridge.CodeNotFound)
	wantCode(t, s.Update(t.Context(), "long-id-1", func(e *Entry) error { e.ID = "x"; return nil }), bridge.CodeInvalid)
	wantCode(t, s.Update(t.Context(), "long-id-1", func(e *Entry) error { e.State = "x"; return nil }), bridge.CodeInvalid)
	err := s.Update(t.Context(), "long-id-1", func(e *Entry) error { e.Title = "x"; return failure })
	if !errors.Is(err, failure) {
		t.Errorf("error %v, want the function's own", err)
	}
	if after := read(t, s.fileOf("long-id-1")); after != before {
		t.Errorf("the file changed:\n%s", after)
	}
}

// TestPanicReleasesLock: a recovered panic of a caller leaves the store
// unlocked.
func TestPanicReleasesLock(t *testing.T) {
	s := newStore(t)
	put(t, s, sample("s-1"))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = s.Update(t.Context(), "s-1", func(*Entry) error { panic("caller's fault") })
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Put(ctx, sample("s-2")); err != nil {
		t.Error(err)
	}
}

func TestGetByPrefix(t *testing.T) {
	s := newStore(t)
	put(t, s, sample("abcd"), sample("abcdef-1"), sample("abcdef-2"), sample("xyz"), sample("äöüß-1"))
	tests := []struct {
		id   string
		want string
		code bridge.Code
	}{
		{id: "abcd", want: "abcd"}, // exact, though a prefix of others
		{id: "abcdef-2", want: "abcdef-2"},
		{id: "abcde", code: bridge.CodeInvalid},
		{id: "xyz", want: "xyz"},
		{id: "xy", code: bridge.CodeNotFound},
		{id: "äöü", code: bridge.CodeNotFound}, // three characters, six bytes
		{id: "äöüß", want: "äöüß-1"},
		{id: "", code: bridge.CodeNotFound},
		{id: "abcdef-3", code: bridge.CodeNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			got, err := s.Get(t.Context(), tt.id)
			wantCode(t, err, tt.code)
			if got.ID != tt.want {
				t.Errorf("got %q, want %q", got.ID, tt.want)
			}
		})
	}

	_, err := s.Get(t.Context(), "abcde")
	if err == nil || !strings.Contains(err.Error(), "abcdef-1, abcdef-2") {
		t.Errorf("error %v does not list the candidates", err)
	}
	for i := range 20 {
		put(t, s, sample(fmt.Sprintf("many-%02d", i)))
	}
	_, err = s.Get(t.Context(), "many")
	if err == nil || !strings.Contains(err.Error(), "any of 20 sessions") || !strings.HasSuffix(err.Error(), "and 10 more") {
		t.Errorf("error %v", err)
	}
}

func TestListNewestFirst(t *testing.T) {
	s := newStore(t)
	young := aged("same-2", StateIdle, 2)
	young.Created = noon.Add(-3 * time.Hour)
	old := aged("same-1", StateIdle, 2)
	old.Created = noon.Add(-4 * time.Hour)
	put(t, s, aged("b", StateIdle, 3), aged("new", StateClosed, 0), old, young, aged("a", StateIdle, 3))
	entries, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := idsOf(entries), "new same-2 same-1 a b"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDelete(t *testing.T) {
	s := newStore(t)
	put(t, s, sample("first"), sample("second"))
	wantCode(t, s.Delete(t.Context(), "firs"), bridge.CodeNotFound)
	if err := s.Delete(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Delete(t.Context(), "first"), bridge.CodeNotFound)
	if entries, err := s.List(t.Context()); err != nil || idsOf(entries) != "second" {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestDeleteAll(t *testing.T) {
	s := newStore(t)
	var some []string
	for i := range 50 {
		put(t, s, sample(fmt.Sprintf("s-%02d", i)))
		if i%2 == 0 {
			some = append(some, fmt.Sprintf("s-%02d", i))
		}
	}
	if err := s.DeleteAll(t.Context(), append(some, "unknown")); err != nil {
		t.Fatal(err)
	}
	left, err := s.List(t.Context())
	if err != nil || len(left) != 25 || slices.ContainsFunc(left, func(e Entry) bool { return slices.Contains(some, e.ID) }) {
		t.Errorf("left %s, %v", idsOf(left), err)
	}
}

func TestExpired(t *testing.T) {
	pinned := aged("pinned", StateIdle, 500)
	pinned.Pinned = true
	entries := []Entry{aged("e1", StateIdle, 1), aged("a2", StateActive, 2), aged("e3", StateClosed, 3), aged("e4", StateFailed, 4), aged("a30", StateActive, 30), aged("e40", StateIdle, 40), pinned}
	for _, tt := range []struct {
		r    Retention
		want string
	}{
		{Retention{}, ""},
		{Retention{Keep: 1}, "e3 e4 a30 e40"},
		{Retention{Keep: 3}, "a30 e40"},
		{Retention{Age: 35 * time.Hour}, "e40"},
		{Retention{Age: time.Hour, Keep: 100}, "e3 e4 a30 e40"},
		{Retention{Keep: 100}, ""},
	} {
		if got := idsOf(tt.r.Expired(entries, noon)); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.r, got, tt.want)
		}
	}
}

// seed writes the one file of older versions.
func seed(t *testing.T, s *Store, data string) {
	t.Helper()
	if err := durable.WriteFile(s.single(), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A file that has lost its contents or is damaged is not overwritten, and does
// not stop the store from working.
func TestBadFilesAreSetAside(t *testing.T) {
	for kind, data := range map[string]string{"empty": "", "damaged": `{"version":1,"sessions":[{"id":"s-1"},`} {
		t.Run(kind, func(t *testing.T) {
			s := newStore(t)
			put(t, s, Entry{ID: "s-1", State: StateIdle, Profile: ProfileChat})
			path := s.fileOf("s-1")
			for _, bad := range []string{path, s.single()} {
				if err := os.WriteFile(bad, []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var told []string
			s.Tell = func(text string) { told = append(told, text) }
			if all, err := s.List(t.Context()); err != nil || len(all) != 0 || (kind == "damaged") != (len(told) == 2) {
				t.Errorf("%v, %v, told %q", all, err, told)
			}
			told = nil
			put(t, s, Entry{ID: "s-1", State: StateIdle, Profile: ProfileChat}, Entry{ID: "s-3", State: StateIdle, Profile: ProfileChat})
			for i, bad := range []string{s.single(), path} {
				aside := bad + "." + kind + "-20250601-120000"
				if got := read(t, aside); got != data {
					t.Errorf("%q", got)
				}
				if len(told) != 2 || !strings.Contains(told[i], aside) {
					t.Errorf("told %q", told)
				}
			}
			if all, err := s.List(t.Context()); err != nil || len(all) != 2 {
				t.Errorf("%v, %v", all, err)
			}
		})
	}
}
