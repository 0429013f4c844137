package redact

// Stream hides secrets in a text that arrives in pieces, wherever it is cut:
// what its methods return, put together, is what String returns for the whole.
//
// It holds back only what may turn out to be part of a secret, at most a few
// hundred bytes, and never half a character. A Stream is for one goroutine.
type Stream struct {
	r     *Redactor
	known stage
	forms stage
	lines keyLines // for a Redactor made by Results
}

// NewStream returns a Stream for one text.
func (r *Redactor) NewStream() *Stream {
	s := &Stream{r: r}
	s.begin()
	return s
}

func (s *Stream) begin() {
	s.known, s.forms, s.lines = stage{}, stage{sc: scan{find: s.r.rules.find}}, keyLines{}
}

// Write takes the next piece and returns what can be let out.
func (s *Stream) Write(chunk string) (safe string) { return s.pass(chunk, false) }

// Flush ends the text and returns the rest of it. The Stream may then be used
// for another text.
func (s *Stream) Flush() string {
	out := s.pass("", true)
	s.begin()
	return out
}

func (s *Stream) pass(chunk string, final bool) string {
	s.known.sc.find = nothing
	if k := s.r.known.Load(); k != nil {
		s.known.sc.find = k.find
	}
	out := s.forms.pass(s.known.pass(chunk, final), final)
	if s.r.results {
		out = s.lines.pass(out, final)
	}
	return out
}

func nothing(*scan) {}

// stage is a scan over a window of the text: the undecided part, and before it
// as much as matchers may look back at.
type stage struct {
	sc   scan
	seen int // how much of the text the last run saw
}

func (st *stage) pass(chunk string, final bool) string {
	sc := &st.sc
	if drop := sc.done - lookBehind; drop > 0 {
		sc.shift(drop)
		st.seen -= drop
	}
	sc.s += chunk
	// A run reads the held text again. If that is long, it waits for a little
	// more, or small pieces would cost many times as much as large ones.
	if held := st.seen - sc.done; !final && held > patient && len(sc.s)-st.seen < held/8 {
		return ""
	}
	sc.final, st.seen = final, len(sc.s)
	from := sc.done
	sc.run()
	out, _ := sc.render(from, false)
	return out
}

// patient is how much may be held back without waiting for more.
const patient = 64

// shift forgets the first n bytes of the text.
func (sc *scan) shift(n int) {
	sc.s = sc.s[n:]
	sc.done -= n
	for i := range sc.spans {
		s := &sc.spans[i]
		s.from, s.to, s.origin = s.from-n, s.to-n, s.origin-n
	}
	for i := range sc.judged {
		v := &sc.judged[i]
		v.origin, v.from, v.to = v.origin-n, v.from-n, v.to-n
	}
	sc.block.at -= n
	sc.block.origin -= n
}
