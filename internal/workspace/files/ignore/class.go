package ignore

import (
	"regexp"
	"strings"
)

// parseClass reads the class that begins at text[start], which is '[', and
// returns its set and the index behind it. It reports false if the class
// has no end or names a POSIX class that does not exist.
func parseClass(text string, start int) (set *[256]bool, next int, ok bool) {
	set = &[256]bool{}
	i, negated := start+1, false
	if i < len(text) && (text[i] == '!' || text[i] == '^') {
		i, negated = i+1, true
	}
	previous, ranged := byte(0), false // whether a range may begin at previous
	for first := true; ; first = false {
		if i >= len(text) {
			return nil, 0, false
		}
		c := text[i]
		switch {
		case c == ']' && !first:
			if negated {
				for b := range set {
					set[b] = !set[b]
				}
			}
			set['/'] = false
			return set, i + 1, true
		case c == '-' && ranged && i+1 < len(text) && text[i+1] != ']':
			i++
			if text[i] == '\\' {
				if i++; i >= len(text) {
					return nil, 0, false
				}
			}
			for b := int(previous); b <= int(text[i]); b++ {
				set[b] = true
			}
			i, ranged = i+1, false
			continue
		case c == '[' && i+1 < len(text) && text[i+1] == ':':
			name, length := posixName(text[i+2:])
			if length == 0 { // no POSIX class after all
				set['['] = true
				previous, ranged = '[', true
				i++
				continue
			}
			members, err := regexp.Compile("[[:" + name + ":]]")
			if err != nil || name == "ascii" || name == "word" || name[0] == '^' { // only Go has these
				return nil, 0, false
			}
			for b := range 128 {
				set[b] = set[b] || members.MatchString(string(rune(b)))
			}
			i, ranged = i+2+length, false
			continue
		case c == '\\':
			if i++; i >= len(text) {
				return nil, 0, false
			}
			c = text[i]
		}
		set[c] = true
		previous, ranged = c, true
		i++
	}
}

// posixName finds the name in what follows "[:" and how much of the text it
// takes with its ":]"; 0 if it does not end that way.
func posixName(text string) (name string, length int) {
	end := strings.IndexByte(text, ']')
	if end < 1 || text[end-1] != ':' {
		return "", 0
	}
	return text[:end-1], end + 1
}
