package view

import (
	"strings"
	"sync"
	"testing"
)

// vt is just enough of a terminal to see what a person would: it knows line
// breaks, carriage returns, cursor up and right, erase to the end of the screen, and
// colours, which it drops.
type vt struct {
	t      *testing.T
	mu     sync.Mutex
	width  int
	rows   [][]rune
	x, y   int
	colour int // how many colour sequences came
}

func newVT(t *testing.T) *vt { return &vt{t: t, width: 60, rows: [][]rune{nil}} }

func (v *vt) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := string(p)
	for s != "" {
		switch {
		case s[0] == '\n': // with the carriage return that a terminal adds
			v.x = 0
			if v.y++; v.y == len(v.rows) {
				v.rows = append(v.rows, nil)
			}
			s = s[1:]
		case s[0] == '\r':
			v.x, s = 0, s[1:]
		case strings.HasPrefix(s, "\x1b["):
			end := strings.IndexAny(s, "ACJm")
			if end < 0 {
				v.t.Fatalf("unknown sequence in %q", s)
			}
			v.control(s[2:end], s[end])
			s = s[end+1:]
		default:
			r := []rune(s)[0]
			if r < ' ' {
				v.t.Fatalf("control character %q reached the terminal", r)
			}
			v.put(r)
			s = s[len(string(r)):]
		}
	}
	return len(p), nil
}

func (v *vt) control(arg string, final byte) {
	switch {
	case final == 'm':
		v.colour++
	case final == 'A' && arg == "":
		if v.y--; v.y < 0 {
			v.t.Fatal("the cursor left the screen")
		}
	case final == 'C' && arg == "":
		v.x++
	case final == 'J' && arg == "":
		v.rows = v.rows[:v.y+1]
		v.rows[v.y] = v.rows[v.y][:min(v.x, len(v.rows[v.y]))]
	default:
		v.t.Fatalf("unknown sequence %s%c", arg, final)
	}
}

func (v *vt) put(r rune) {
	if v.x == v.width {
		v.x, v.y = 0, v.y+1
		if v.y == len(v.rows) {
			v.rows = append(v.rows, nil)
		}
	}
	row := v.rows[v.y]
	for len(row) <= v.x {
		row = append(row, ' ')
	}
	row[v.x] = r
	v.rows[v.y] = row
	v.x++
}

// String is the text on the screen.
func (v *vt) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := make([]string, len(v.rows))
	for i, r := range v.rows {
		lines[i] = strings.TrimRight(string(r), " ")
	}
	return strings.Join(lines, "\n")
}
