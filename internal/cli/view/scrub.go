package view

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

// Scrubber takes known secrets out of text. The zero value knows none; it may
// be used concurrently.
type Scrubber struct {
	known atomic.Pointer[strings.Replacer]
}

// Learn sets the secrets to look for, in the forms in which they may be
// printed: as they are, quoted, in JSON, in a URL.
func (s *Scrubber) Learn(secrets []string) {
	var forms []string
	for _, secret := range secrets {
		if len(secret) >= shortest {
			forms = append(forms, secret, quoted(secret, true), quoted(secret, false), url.QueryEscape(secret), url.PathEscape(secret))
		}
	}
	if forms == nil {
		s.known.Store(nil)
		return
	}
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) }) // one may be the beginning of another
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f, redacted)
	}
	s.known.Store(strings.NewReplacer(pairs...))
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

// Text is t without the secrets.
func (s *Scrubber) Text(t string) string {
	if known := s.known.Load(); known != nil {
		return known.Replace(t)
	}
	return t
}
