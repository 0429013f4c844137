package cli

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	redacted = "[REDACTED]"
	// shortest is the length from which a secret is looked for. A shorter one
	// is likely to be an ordinary word, such as a local server's dummy key.
	shortest = 8
)

// scrubber takes known secrets out of text. The zero value knows none; it may
// be used concurrently.
type scrubber struct {
	known atomic.Pointer[secrets]
}

type secrets struct {
	plain    []string // longest first
	replacer *strings.Replacer
	forms    [][]byte
}

// learn sets the secrets to look for, in the forms in which they may be
// printed: as they are, quoted, in JSON, in a URL.
func (s *scrubber) learn(all []string) {
	var k secrets
	for _, secret := range all {
		if len(secret) >= shortest && !slices.Contains(k.plain, secret) {
			k.plain = append(k.plain, secret)
		}
	}
	if len(k.plain) == 0 {
		s.known.Store(nil)
		return
	}
	longestFirst := func(a, b string) int { return len(b) - len(a) }
	slices.SortFunc(k.plain, longestFirst)
	var forms []string
	for _, secret := range k.plain {
		forms = append(forms, secret, quoted(secret, true), quoted(secret, false), url.QueryEscape(secret), url.PathEscape(secret))
	}
	slices.SortStableFunc(forms, longestFirst)
	var pairs []string
	for _, f := range slices.Compact(forms) {
		pairs = append(pairs, f, redacted)
		k.forms = append(k.forms, []byte(f))
	}
	k.replacer = strings.NewReplacer(pairs...)
	s.known.Store(&k)
}

// quoted is a secret as JSON (and Go, for printable ASCII) writes it.
func quoted(secret string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(secret); err != nil {
		return secret // never: a string can be encoded
	}
	text := strings.TrimSuffix(b.String(), "\n")
	return text[1 : len(text)-1]
}

func (s *scrubber) text(t string) string {
	if k := s.known.Load(); k != nil {
		return k.replacer.Replace(t)
	}
	return t
}

func (s *scrubber) bytes(b []byte) []byte {
	k := s.known.Load()
	if k == nil || !slices.ContainsFunc(k.forms, func(f []byte) bool { return bytes.Contains(b, f) }) {
		return b
	}
	return []byte(k.replacer.Replace(string(b)))
}
