package redact

import (
	"regexp"
	"strings"
)

// keyLines hides lines of a private key whose header was left out, as tools do
// that show a part of a file: two or more lines after one another that are as
// long as key writers make them and look generated, with the shorter one that
// ends them, and whatever line stands before the footer of a private key. Lines
// below another header, such as that of a certificate, stay.
//
// It takes a text in pieces. It holds back the word at the end of the text, and
// a line that the next one decides about.
type keyLines struct {
	line    string // the line that has begun
	emitted int    // how much of it has been let out
	long    bool   // it was too long to be held, and line is the rest of it
	held    []heldLine
	state   keyState
	hits    int
}

type keyState int

const (
	outside keyState = iota
	hiding           // in a key
	public           // below a header of something else
)

// heldLine is a line that ends in a run of base64: with its end, and where the
// run is.
type heldLine struct {
	text     string
	emitted  int
	from, to int
	full     bool // it may be one of a key's, but the last
}

// minKeyLine is the length of the shortest line but a last one: OpenSSL writes
// 64, OpenSSH 70, others 76.
const minKeyLine = 64

func fullLength(n int) bool { return n == minKeyLine || n == 70 || n == 76 }

// mayHoldKeyLines is a quick way out for texts without long words.
func mayHoldKeyLines(s string) bool {
	for i := minKeyLine - 1; i < len(s); i += minKeyLine {
		from, to := i, i
		for from > 0 && i-from < minKeyLine && base64Set[s[from-1]] {
			from--
		}
		for to < len(s) && to-i < minKeyLine && base64Set[s[to]] {
			to++
		}
		if to-from >= minKeyLine {
			return true
		}
	}
	return strings.Contains(s, "-----END ")
}

// pass takes more of the text and returns what can be let out.
func (k *keyLines) pass(chunk string, final bool) string {
	var out strings.Builder
	for chunk != "" {
		end := strings.IndexByte(chunk, '\n') + 1
		if end == 0 {
			k.line += chunk
			break
		}
		k.whole(&out, k.line+chunk[:end])
		k.line, k.emitted, k.long, chunk = "", 0, false, chunk[end:]
	}
	if final {
		k.whole(&out, k.line)
		k.release(&out, false)
		k.line, k.emitted, k.long, k.state = "", 0, false, outside
		return out.String()
	}
	switch {
	case k.long || len(k.line) > maxLine:
		k.whole(&out, k.line)
		k.line, k.emitted, k.long = "", 0, true
	case len(k.held) == 0:
		from, to := lastRun(k.line)
		if to-from > maxBody {
			from = len(k.line)
		}
		from = max(from, k.emitted)
		out.WriteString(k.line[k.emitted:from])
		k.emitted = from
	}
	return out.String()
}

const (
	// maxBody is the longest line of a key, with a sign of a diff before it.
	maxBody = 77
	// maxLine is the longest line that may be one of a key's, with what tools
	// put before it.
	maxLine = 512
)

// whole decides about a line.
func (k *keyLines) whole(out *strings.Builder, line string) {
	if k.long || len(line) > maxLine {
		k.release(out, false)
		k.state = outside
		out.WriteString(line[k.emitted:])
		return
	}
	l, is := k.body(line)
	n := l.to - l.from
	l.full = is && fullLength(n) && looksEncoded(line[l.from:l.to])
	second := len(k.held) > 0 && k.held[0].full
	switch {
	case is && k.state == hiding:
		k.held = append(k.held, l)
		k.release(out, true)
		if !l.full {
			k.state = outside
		}
	case is && k.state == public:
		out.WriteString(line[k.emitted:])
	case is && second && (l.full || endsKey(line[l.from:l.to])):
		k.held = append(k.held, l)
		k.hits++
		k.release(out, true)
		if k.state = hiding; !l.full {
			k.state = outside
		}
	case l.full:
		k.release(out, false)
		k.held = append(k.held, l)
	case is && n <= maxBody:
		// Only the footer can make a secret of it, and of the full one before.
		if len(k.held) > 1 || !second {
			k.release(out, false)
		}
		k.held = append(k.held, l)
	default:
		k.other(out, line)
	}
}

// other takes a line that is not of a key's body.
func (k *keyLines) other(out *strings.Builder, line string) {
	private := strings.Contains(line, "PRIVATE KEY")
	switch {
	case strings.Contains(line, "-----END ") && private:
		if len(k.held) > 0 {
			k.hits++
		}
		k.release(out, true)
		k.state = outside
	case strings.Contains(line, "-----BEGIN ") && !private:
		k.release(out, false)
		k.state = public
	case k.state == public && (strings.TrimSpace(line) == "" || strings.Contains(line, ": ") || strings.Contains(line, Marker)):
		k.release(out, false) // a blank line, a header, or one in which a token was found
	default:
		k.release(out, false)
		k.state = outside
	}
	out.WriteString(line[k.emitted:])
}

// release lets the held lines out, with their bodies hidden or not.
func (k *keyLines) release(out *strings.Builder, hide bool) {
	for _, l := range k.held {
		if !hide {
			out.WriteString(l.text[l.emitted:])
			continue
		}
		out.WriteString(l.text[l.emitted:max(l.emitted, l.from)] + Marker + l.text[l.to:])
	}
	k.held = k.held[:0]
}

// beforeBody is what stands before a line: marks of a diff, a quotation or a
// comment, the name of a file, the number of the line.
var beforeBody = regexp.MustCompile("^[\\s\"'`|>+#*;%/-]*(?:[^\\s:]{1,200}[:-])?(?:\\d{1,7}[-:.|)→\\t ]+)?[\\s\"'`|>#*;%/-]*$")

// body finds the run of base64 that ends a line.
func (k *keyLines) body(line string) (heldLine, bool) {
	l := heldLine{text: line, emitted: k.emitted}
	l.from, l.to = lastRun(line)
	if fullLength(l.to-l.from-1) && line[l.from] == '+' { // of a diff
		l.from++
	}
	n := l.to - l.from
	return l, n > 0 && n <= maxBody && (l.from == 0 || beforeBody.MatchString(line[:l.from]))
}

// lastRun returns the run of base64 that ends a line, with only closing marks
// after it.
func lastRun(line string) (from, to int) {
	to = len(strings.TrimRight(line, " \t\r\n\"'`,;"))
	for from = to; from > 0 && to-from <= maxBody && base64Set[line[from-1]]; {
		from--
	}
	return from, to
}

// looksEncoded reports whether a full line may be one of a key. A sum in
// hexadecimal is not, nor are words.
func looksEncoded(s string) bool {
	c := count(s)
	return c.upper > 2 && c.lower > 2 && c.digit > 0 && entropy(s) >= 3.5 && !wordy(s)
}

// endsKey reports whether a shorter line looks like the last of a key.
func endsKey(s string) bool {
	return strings.HasSuffix(s, "=") || len(s) >= bodyLine && varied(s) && !wordy(s)
}
