package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
)

// minKnown is the length from which a known value is worth hiding. Shorter
// ones would turn up in ordinary words.
const minKnown = 6

// AddSecrets hides the given values from now on, wherever they appear: as
// they are, escaped as in JSON or a URL, in hexadecimal, and in base64, also
// as a part of something longer that was encoded. Values shorter than six
// bytes are ignored. Streams heed values added after they began.
func (r *Redactor) AddSecrets(values ...string) {
	r.known.mu.Lock()
	defer r.known.mu.Unlock()
	var all []string
	if k := r.known.Load(); k != nil {
		all = slices.Clone(k.literals)
	}
	for _, v := range values {
		if len(v) >= minKnown && !strings.Contains(Marker, v) {
			all = append(all, forms(v)...)
		}
	}
	if len(all) > 0 {
		r.known.Store(newKnown(all))
	}
}

// forms returns v in the encodings in which it may appear.
func forms(v string) []string {
	all := []string{v, url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	if quoted, err := json.Marshal(v); err == nil {
		all = append(all, string(quoted[1:len(quoted)-1]))
	}
	all = append(all, strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(v), asciiJSON(v))
	// In base64 three bytes become four characters, so that what a value looks
	// like depends on how many bytes stand before it. The characters at its
	// ends depend on the neighbours too and are left out.
	for before := range 3 {
		padded := append(make([]byte, before), v...)
		first := (before*8 + 5) / 6
		last := len(padded) * 8 / 6
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if text := enc.EncodeToString(padded)[first:last]; len(text) >= minKnown {
				all = append(all, text)
			}
		}
	}
	return all
}

// asciiJSON escapes v as encoders do that write nothing but ASCII.
func asciiJSON(v string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(v)) {
		switch {
		case unit == '"' || unit == '\\':
			b.WriteByte('\\')
			b.WriteByte(byte(unit))
		case unit < 0x20 || unit > 0x7e:
			fmt.Fprintf(&b, `\u%04x`, unit)
		default:
			b.WriteByte(byte(unit))
		}
	}
	return b.String()
}

// known finds literals. A table of their first two bytes passes over nearly
// all of a text; the rest is looked up among the literals in their order, so
// that their number does not matter.
type known struct {
	literals []string             // sorted
	shorter  []int                // for each, the longest literal that it begins with, or -1
	first    [1 << 16 / 64]uint64 // a bit for each pair of bytes that a literal begins with
	lead     [256]bool
	// windows has the first three runs of four bytes of each literal.
	windows [1 << windowBits]bool
}

const windowBits = 14

func windowOf(s string) uint32 {
	w := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
	return w * 0x9e3779b1 >> (32 - windowBits)
}

// absent reports that no literal is in s: true of nearly all texts, and found
// out by a look at every third place. Wherever a literal begins, one of its
// first three runs of four bytes is at such a place, since none is shorter than
// minKnown.
func (k *known) absent(s string) bool {
	for ; len(s) >= 4; s = s[min(3, len(s)):] {
		if k.windows[windowOf(s)] {
			return false
		}
	}
	return true
}

func newKnown(literals []string) *known {
	slices.Sort(literals)
	k := &known{literals: slices.Compact(literals)}
	k.shorter = make([]int, len(k.literals))
	for n, lit := range k.literals {
		pair := uint16(lit[0])<<8 | uint16(lit[1])
		k.lead[lit[0]] = true
		k.first[pair/64] |= 1 << (pair % 64)
		// What a literal begins with is the one before it, or what that one
		// begins with.
		at := n - 1
		for at >= 0 && !strings.HasPrefix(lit, k.literals[at]) {
			at = k.shorter[at]
		}
		k.shorter[n] = at
		for i := range 3 {
			k.windows[windowOf(lit[i:])] = true
		}
	}
	return k
}

func (k *known) find(sc *scan) {
	s := sc.s
	for i := sc.done; i+1 < len(s) && !sc.abandoned(); {
		for stop := min(len(s)-1, i+checkEvery); i < stop; i++ {
			pair := uint16(s[i])<<8 | uint16(s[i+1])
			if k.first[pair/64]&(1<<(pair%64)) != 0 {
				sc.try(k, i, i)
			}
		}
	}
	if last := len(s) - 1; !sc.final && last >= sc.done && k.lead[s[last]] {
		sc.cut = min(sc.cut, last)
	}
}

// match adds the longest literal at start.
func (k *known) match(sc *scan, start, _ int) {
	rest := sc.s[start:]
	next, equal := slices.BinarySearch(k.literals, rest)
	if equal {
		next++
	}
	if next < len(k.literals) {
		sc.hasPrefix(start, k.literals[next]) // a stream may end within it
	}
	at := next - 1 // what rest begins with is this one, or what this one begins with
	for at >= 0 && !strings.HasPrefix(rest, k.literals[at]) {
		at = k.shorter[at]
	}
	if at >= 0 {
		sc.add(start, start+len(k.literals[at]), nil)
	}
}
