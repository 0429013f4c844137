package view

import (
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

// shape is the columns of the list of sessions.
type shape []column

type column struct {
	name  string
	width int
	right bool // numbers end where their column ends
	tail  bool // of what is too long, the end is shown
}

// columnsFor is what fits: the narrower the terminal, the less is told.
func columnsFor(columns int) shape {
	s := shape{{name: "STATE", width: 11}, {name: "DOOR", width: 8}}
	ages := shape{{name: "AGE", width: 4, right: true}, {name: "TOKENS", width: 6, right: true}}
	switch {
	case columns >= 110:
		s = append(s, column{name: "CLIENT", width: 14}, column{name: "MODEL", width: 14}, column{name: "DIR", width: 20, tail: true})
		s = append(append(s, ages...), column{name: "COST", width: 8, right: true}, column{name: "TITLE"})
	case columns >= 76:
		s = append(s, column{name: "MODEL", width: 12})
		s = append(append(s, ages...), column{name: "DIR", width: 16, tail: true}, column{name: "TITLE"})
	default:
		s = append(s, ages...)
		s = append(s, column{name: "DIR", tail: true})
	}
	used := 0
	for _, c := range s {
		used += c.width + 1
	}
	s[len(s)-1].width = max(4, columns-used+1)
	return s
}

func (s shape) head() string {
	names := map[string]string{}
	for _, c := range s {
		names[c.name] = c.name
	}
	return s.row(names)
}

// row is one row of the table; a cell that is empty is a dash.
func (s shape) row(of map[string]string) string {
	var b strings.Builder
	for i, c := range s {
		cell := approval.Visible(of[c.name])
		if cell == "" {
			cell = "-"
		}
		if c.tail {
			cell = fitEnd(cell, c.width)
		} else {
			cell = Fit(cell, c.width)
		}
		gap := strings.Repeat(" ", max(0, c.width-cells(cell)))
		if c.right {
			cell = gap + cell
		} else if i < len(s)-1 {
			cell += gap
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(cell)
	}
	return b.String()
}

// fitEnd shortens text to a number of columns, and keeps its end.
func fitEnd(text string, columns int) string {
	if cells(text) <= columns {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && cells(string(runes))+1 > columns {
		runes = runes[1:]
	}
	return "…" + string(runes)
}

// rowsOf are the rows that a text takes. Nothing of it is left out: it breaks
// behind spaces where it can, and in a word that is longer than a row.
func rowsOf(text string, columns int) (rows []string) {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\t", "    "), "\n") {
		runes := []rune(line)
		start, blank, used := 0, 0, 0
		for i := 0; i < len(runes); i++ {
			w := runeWidth(runes[i])
			if used+w > columns && i > start {
				if blank <= start {
					blank = i
				}
				rows = append(rows, string(runes[start:blank]))
				start, used = blank, 0
				i = start - 1
				continue
			}
			used += w
			if runes[i] == ' ' {
				blank = i + 1
			}
		}
		rows = append(rows, string(runes[start:]))
	}
	return rows
}

// short is a number in few columns: 999, 12k, 1.2M.
func short(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 10_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// spentShort is spent in few columns: premium requests and AI credits.
func spentShort(u bridge.Usage) (parts []string) {
	if u.Premium > 0 {
		parts = append(parts, Amount(u.Premium)+" pr")
	}
	if u.Credits > 0 {
		parts = append(parts, Amount(u.Credits)+" cr")
	}
	return parts
}

func usageOf(r usagelog.Record) bridge.Usage {
	return bridge.Usage{InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, Premium: r.Premium, Credits: r.Credits}
}

// window is a part of rows that fits, from first on as far as there are enough.
func window(rows []liveLine, first *int, room int) []liveLine {
	*first = max(0, min(*first, len(rows)-room))
	return rows[*first:min(len(rows), *first+room)]
}

// scroll moves the first row that is shown, and says whether the key is one
// that does.
func scroll(k key, first *int, room int) bool {
	switch {
	case k.code == keyUp || k.is("k"):
		*first--
	case k.code == keyDown || k.is("j"):
		*first++
	case k.code == keyPageUp || k.is("b"):
		*first -= max(1, room-1)
	case k.code == keyPageDown || k.is(" "):
		*first += max(1, room-1)
	case k.code == keyHome || k.is("g"):
		*first = 0
	case k.code == keyEnd:
		*first = 1 << 30
	default:
		return false
	}
	return true
}
