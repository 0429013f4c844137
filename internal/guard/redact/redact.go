// Package redact replaces secrets in text by [REDACTED]: tokens of known forms,
// values under telling names, credentials in URLs and headers, private keys,
// and values that the program knows to be secret. It finds what leaks by
// accident; it does not stop a program that hides a secret on purpose. The
// guard calls it for prompts, results and audit entries; app, cli and the
// OpenClaw registration call it for logs and output.
package redact

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Marker stands in the place of a secret.
const Marker = "[REDACTED]"

// Options make a Redactor.
type Options struct {
	// Secrets are values to hide wherever they appear; see AddSecrets.
	Secrets []string
}

// Redactor hides secrets in any text; JSON text stays JSON. It does not decode
// its input: an encoded secret passes unless it is one of AddSecrets. Its
// methods may be called concurrently.
type Redactor struct {
	rules *rules
	known *knownSecrets
	// results is set for what tools return; see Results.
	results bool
}

// knownSecrets are shared by a Redactor and those made of it.
type knownSecrets struct {
	atomic.Pointer[known]
	mu sync.Mutex // serialises AddSecrets
}

// New returns a Redactor.
func New(opts Options) *Redactor {
	r := &Redactor{rules: compiled(), known: &knownSecrets{}}
	r.AddSecrets(opts.Secrets...)
	return r
}

// Results returns a Redactor for what tools return. It knows the same values,
// and also hides lines that look like those of a private key whose header was
// left out: a tool may show a part of a file. In what people write, such lines
// stay.
func (r *Redactor) Results() *Redactor {
	return &Redactor{rules: r.rules, known: r.known, results: true}
}

// String returns s without its secrets, and how many there were. Applied to
// what it has returned it changes nothing.
func (r *Redactor) String(s string) (out string, hits int) {
	out, hits, _ = r.StringContext(context.Background(), s) // only a context can end it early
	return out, hits
}

// StringContext is String with a context. When ctx ends it returns its error and
// none of the text.
func (r *Redactor) StringContext(ctx context.Context, s string) (out string, hits int, err error) {
	return r.text(ctx, s, false)
}

// Lines is StringContext for a text of which only some lines will be seen: a
// secret of several lines leaves as many of them.
func (r *Redactor) Lines(ctx context.Context, s string) (out string, hits int, err error) {
	return r.text(ctx, s, true)
}

// text hides the secrets of s. With lines each line of a secret has a marker.
func (r *Redactor) text(ctx context.Context, s string, lines bool) (out string, hits int, err error) {
	n := 0
	if k := r.known.Load(); k != nil && !k.absent(s) {
		if s, n, err = whole(ctx, s, k.find, lines); err != nil {
			return "", 0, err
		}
	}
	if !r.rules.silent(s) {
		if s, hits, err = whole(ctx, s, r.rules.find, lines); err != nil {
			return "", 0, err
		}
	}
	if r.results && mayHoldKeyLines(s) {
		var k keyLines
		s = k.pass(s, true)
		hits += k.hits
	}
	return s, n + hits, nil
}

// Bytes is String for bytes. It returns b itself if there was nothing to hide
// and never changes it.
func (r *Redactor) Bytes(b []byte) (out []byte, hits int) {
	s, hits := r.String(string(b))
	if hits == 0 {
		return b, 0
	}
	return []byte(s), hits
}

// whole applies one stage to a complete text.
func whole(ctx context.Context, s string, find func(*scan), lines bool) (string, int, error) {
	sc := scan{text: text{s: s, final: true}, find: find, ctx: ctx}
	sc.run()
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	out, hits := sc.render(0, lines)
	return out, hits, nil
}

// Secrets returns the secrets that s holds, each line of them for itself, but not
// plain words: the rest of a text would be full of them.
func (r *Redactor) Secrets(ctx context.Context, s string) ([]string, error) {
	sc := scan{text: text{s: s, final: true}, find: r.rules.find, ctx: ctx}
	sc.run()
	var all []string
	for _, found := range sc.spans {
		for line := range strings.SplitSeq(s[found.from:found.to], "\n") {
			if line = strings.TrimSpace(line); len(line) >= minKnown && (count(line).digit > 0 || !wordy(line)) {
				all = append(all, line)
			}
		}
	}
	return all, ctx.Err()
}

// With returns a Redactor that hides these values too, as they are.
func (r *Redactor) With(values []string) *Redactor {
	all := slices.Clone(values)
	if k := r.known.Load(); k != nil {
		all = append(all, k.literals...)
	}
	with := *r
	with.known = &knownSecrets{}
	with.known.Store(newKnown(all))
	return &with
}

// rules are the matchers and the automaton that finds their keywords.
type rules struct {
	auto     *automaton
	matchers [][]matcher // by keyword
}

// compiled builds the rules once; they never change.
var compiled = sync.OnceValue(func() *rules {
	b := collect()
	return &rules{auto: newAutomaton(b.words), matchers: b.matchers}
})

// collect lists every keyword with its matchers.
func collect() ruleBuilder {
	b := ruleBuilder{index: map[string]int{}, classes: map[class]*class{}}
	for _, f := range families() {
		f.tokens(b.add)
	}
	for _, w := range slices.Concat(keyWords, []string{" pat"}, vendors) {
		b.add(w, keyed{})
	}
	b.add("-----begin ", privateKey{})
	b.add("---- begin ", privateKey{})
	b.add("private-lines:", puttyKey{})
	b.add("://", userinfo{})
	b.add(`:\/\/`, userinfo{})
	b.add("bearer", bearer{})
	b.add("basic", basic{})
	b.add(" -p", passwordOption{})
	b.add(" -u", curlUser{})
	b.add(" --user", curlUser{})
	return b
}

type ruleBuilder struct {
	words    []string
	index    map[string]int
	matchers [][]matcher
	classes  map[class]*class
}

func (b *ruleBuilder) add(keyword string, m matcher) {
	if t, ok := m.(*token); ok {
		b.share(t)
	}
	keyword = lower(keyword)
	i, ok := b.index[keyword]
	if !ok {
		i = len(b.words)
		b.index[keyword] = i
		b.words = append(b.words, keyword)
		b.matchers = append(b.matchers, nil)
	}
	b.matchers[i] = append(b.matchers[i], m)
}

// share lets tokens with equal classes use the same ones: a scan remembers
// about a class how far its runs reach.
func (b *ruleBuilder) share(t *token) {
	one := func(c *class) *class {
		if b.classes[*c] == nil {
			b.classes[*c] = c
		}
		return b.classes[*c]
	}
	for i := range t.shape.runs {
		t.shape.runs[i].set = one(t.shape.runs[i].set)
	}
	if t.shape.tail != nil {
		t.shape.tail = one(t.shape.tail)
	}
}

func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if isUpper(c) {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

// silent reports that no keyword is in s, so that find would find nothing: true
// of most lines of most texts.
func (r *rules) silent(s string) bool { return !r.auto.in(s) }

// find asks the matchers about every keyword from sc.done on.
func (r *rules) find(sc *scan) {
	a, s := r.auto, sc.s
	state := uint16(0)
	for i := sc.done; i < len(s) && !sc.abandoned(); {
		for stop := min(len(s), i+checkEvery); i < stop; i++ {
			state = a.next[int(state)*a.width+int(a.class[s[i]])]
			if state < a.accept {
				continue
			}
			for _, id := range a.ends[state-a.accept] {
				for _, m := range r.matchers[id] {
					sc.try(m, i+1-a.lens[id], i+1)
				}
			}
		}
	}
	if !sc.final {
		sc.cut = min(sc.cut, len(s)-int(a.depth[state]))
	}
}
