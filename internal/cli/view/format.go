package view

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// style paints text, or leaves it as it is.
type style struct{ on bool }

func (s style) paint(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(t string) string   { return s.paint("1", t) }
func (s style) dim(t string) string    { return s.paint("2", t) }
func (s style) red(t string) string    { return s.paint("31", t) }
func (s style) green(t string) string  { return s.paint("32", t) }
func (s style) yellow(t string) string { return s.paint("33", t) }
func (s style) loud(t string) string   { return s.paint("1;33", t) }

// Duration is a time span for people: "12 ms", "3.4 s", "2 min 05 s".
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", math.Floor(d.Seconds()*10)/10)
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}

// Count is a number for people, with thin groups: "17 742".
func Count(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}

// Amount is a number of premium requests or credits.
func Amount(f float64) string { return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64) }

// spent says what a turn has cost at GitHub, as far as that is known.
func spent(u bridge.Usage) (parts []string) {
	for _, kind := range []struct {
		n    float64
		unit string
	}{{u.Premium, "premium request"}, {u.Credits, "AI credit"}} {
		switch kind.n {
		case 0:
		case 1:
			parts = append(parts, "1 "+kind.unit)
		default:
			parts = append(parts, Amount(kind.n)+" "+kind.unit+"s")
		}
	}
	return parts
}

// Fields is a table of names and values, without those that are empty.
func Fields(rows ...[2]string) string {
	var full [][]string
	for _, row := range rows {
		if row[1] != "" {
			full = append(full, row[:])
		}
	}
	return Table(full, 0)
}

// Age is how long ago something was, in its largest unit.
func Age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Bytes is a size in its largest unit.
func Bytes(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB"} {
		if size < 1000 {
			break
		}
		size, unit = size/1000, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// Table aligns cells in columns; an empty cell is a dash. What could control a
// terminal is made visible. Lines are cut to width unless that is 0.
func Table(rows [][]string, width int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		for i := range cells {
			cells[i] = approval.Visible(cmp.Or(cells[i], "-"))
		}
		_, _ = w.Write([]byte(strings.Join(cells, "\t") + "\n")) // a buffer cannot fail
	}
	_ = w.Flush() // a buffer cannot fail
	if width <= 0 {
		return b.String()
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = Fit(lines[i], width)
	}
	return strings.Join(lines, "\n")
}

// Fit shortens text to a number of columns.
func Fit(text string, columns int) string {
	if columns <= 0 {
		return ""
	}
	used := 0
	for i, r := range text {
		w := runeWidth(r)
		if used+w > columns {
			return cutTo(text[:i], used, columns)
		}
		used += w
	}
	return text
}

// cutTo makes room for the ellipsis at the end of text, which takes used
// columns.
func cutTo(text string, used, columns int) string {
	runes := []rune(text)
	for len(runes) > 0 && used > columns-1 {
		used -= runeWidth(runes[len(runes)-1])
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// runeWidth errs on the side of wide: a line that is too short does no harm,
// one that wraps cannot be erased.
func runeWidth(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && r != '…' && (r < 0x2010 || r > 0x27bf):
		return 2
	}
	return 1
}

// Shorten names a path as people do: relative to dir if it is inside, else
// with ~ for home.
func Shorten(path, dir, home string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && dir != "" && filepath.IsLocal(rel) {
		return rel
	}
	if rel, err := filepath.Rel(home, path); err == nil && home != "" && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return path
}

// Harmless keeps a text's lines and tabs and makes everything visible that
// could control a terminal or reorder text.
func Harmless(text string) string {
	bad := func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' ||
			r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
	}
	if !strings.ContainsFunc(text, bad) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\r':
		case bad(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case bad(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
