package durable

import (
	"path/filepath"
	"testing"
)

func TestSeats(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seats")
	// Each is what another process would have.
	one, two, three := NewSeats(dir, 2), NewSeats(dir, 2), NewSeats(dir, 2)
	take := func(s *Seats, want bool) func() {
		t.Helper()
		leave, ok, err := s.Take()
		if err != nil || ok != want {
			t.Fatalf("%v, %v", ok, err)
		}
		return leave
	}
	first := take(one, true)
	again := take(one, true) // the same seat
	second := take(two, true)
	take(three, false)
	first()
	take(three, false) // it is taken still
	again()
	third := take(three, true)
	take(one, false)
	second()
	third()
	take(one, true)()
	if _, _, err := NewSeats(filepath.Join(dir, "0.lock", "x"), 1).Take(); err == nil {
		t.Error("a directory that cannot be made")
	}
}
