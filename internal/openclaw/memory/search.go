package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// The constants of BM25, as they are usually chosen.
const (
	k1 = 1.2
	b  = 0.75
)

// Search returns the sections that fit a query best, at most limit of them.
func (x *Index) Search(ctx context.Context, query string, limit int) (Found, error) {
	wanted, err := parse(query)
	if err != nil {
		return Found{}, err
	}
	limit = min(max(limit, 1), maxLimit)
	x.mu.Lock()
	defer x.mu.Unlock()
	roots, err := open(x.folders)
	if err != nil {
		return Found{}, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the memory cannot be opened", Cause: err}
	}
	defer closeAll(roots)
	if err := x.refresh(ctx, roots); err != nil {
		return Found{}, err
	}
	out := Found{Hits: []Hit{}, Files: len(x.files) - x.unread, Sections: x.live, Skipped: x.skipped + x.unread}
	for _, s := range x.best(wanted, limit) {
		e := x.sections[s.section]
		out.Hits = append(out.Hits, Hit{File: e.name.path, Heading: e.heading, Line: e.first, EndLine: e.last,
			Score: math.Round(s.score*1000) / 1000, Snippet: snippet(roots[e.name.folder], e, wanted)})
	}
	return out, nil
}

// parse takes a query apart into its terms, each once.
func parse(query string) (map[string]bool, error) {
	if len(query) > maxQuery {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the query is longer than %d bytes", maxQuery), Remedy: "search for a few words"}
	}
	terms := map[string]bool{}
	new(scanner).each(query, true, func(t []byte) { terms[string(t)] = true })
	if len(terms) == 0 {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the query holds no word", Remedy: "search for a few words"}
	}
	return terms, nil
}

type scored struct {
	section uint32
	score   float64
}

func (x *Index) best(wanted map[string]bool, limit int) []scored {
	scores := make([]float64, len(x.sections)) // cheaper than a map, which every common word would fill
	mean := float64(x.length) / float64(max(x.live, 1))
	for term := range wanted {
		number, ok := x.terms[term]
		if !ok {
			continue
		}
		list := x.postings[number]
		n := 0
		for _, p := range list {
			if !x.sections[p.section].dead {
				n++
			}
		}
		rarity := math.Log(1 + (float64(x.live-n)+0.5)/(float64(n)+0.5))
		for _, p := range list {
			e := &x.sections[p.section]
			if e.dead {
				continue
			}
			weight := float64(p.weight)
			scores[p.section] += rarity * weight * (k1 + 1) / (weight + k1*(1-b+b*float64(e.length)/mean))
		}
	}
	// Among equals by name, so that the same question has the same answer.
	order := func(a, b scored) int {
		if c := cmp.Compare(b.score, a.score); c != 0 {
			return c
		}
		p, q := &x.sections[a.section], &x.sections[b.section]
		return cmp.Or(cmp.Compare(p.name.folder, q.name.folder), cmp.Compare(p.name.path, q.name.path), cmp.Compare(p.first, q.first))
	}
	var top []scored // in order
	for i, score := range scores {
		s := scored{uint32(i), score}
		if score == 0 || len(top) == limit && order(top[limit-1], s) <= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, s, order)
		top = slices.Insert(top, at, s)[:min(len(top)+1, limit)]
	}
	return top
}

// maxSnippet is how much of a section is shown.
const maxSnippet = 400

// snippet is the lines of a section around the one with most of the wanted
// terms.
func snippet(root *os.Root, e entry, wanted map[string]bool) string {
	text, ok := read(root, e.name.path, nil)
	if !ok {
		return ""
	}
	lines := strings.Split(strings.ToValidUTF8(string(text), "\uFFFD"), "\n")
	lines = lines[min(e.first-1, len(lines)):min(e.last, len(lines))]
	var scan scanner
	at, most := 0, 0
	for i, l := range lines {
		seen := map[string]bool{}
		scan.each(l, true, func(t []byte) {
			if wanted[string(t)] {
				seen[string(t)] = true
			}
		})
		if len(seen) > most {
			at, most = i, len(seen)
		}
	}
	var shown []string
	size := 0
	for i := max(at-1, 0); i < len(lines) && size < maxSnippet; i++ {
		if l := strings.TrimSpace(lines[i]); l != "" {
			l = around(l, wanted, &scan)
			shown = append(shown, l)
			size += len(l) + 1
		}
	}
	return cut(strings.Join(shown, "\n"), maxSnippet)
}

// around shortens a long line to the text around the first wanted term.
func around(line string, wanted map[string]bool, scan *scanner) string {
	if len(line) <= maxSnippet {
		return line
	}
	const step = maxSnippet / 2
	for from := 0; from < len(line); from += step {
		piece := line[from:min(from+step, len(line))]
		hit := false
		scan.each(piece, true, func(t []byte) { hit = hit || wanted[string(t)] })
		if hit {
			from = max(from-step/2, 0)
			for from > 0 && !utf8.RuneStart(line[from]) {
				from--
			}
			if from > 0 {
				return "…" + cut(line[from:], maxSnippet)
			}
			break
		}
	}
	return cut(line, maxSnippet)
}

// cut shortens a text at the end of a character.
func cut(s string, size int) string {
	if len(s) <= size {
		return s
	}
	for size > 0 && !utf8.RuneStart(s[size]) {
		size--
	}
	return s[:size] + "…"
}
