package redact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxDepth bounds how deep Value looks into nested values and into JSON inside
// of strings. What lies deeper is replaced whole.
const maxDepth = 64

// Value returns a copy of v, which is a value as encoding/json decodes them,
// without the secrets in any of its strings and map keys, and how many there
// were. A string is judged together with the key it is stored under, and a
// string that is JSON is looked into as well. v is not changed. Values of
// other types are taken for what they are encoded as in JSON; what cannot be
// encoded is replaced.
func (r *Redactor) Value(v any) (any, int) {
	out, hits, _ := r.ValueContext(context.Background(), v) // only a context can end it early
	return out, hits
}

// ValueContext is Value with a context. When ctx ends it returns its error and
// nothing of the value.
func (r *Redactor) ValueContext(ctx context.Context, v any) (any, int, error) {
	w := walker{ctx: ctx, r: r}
	out := w.value("", v, 0)
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	return out, w.hits, nil
}

type walker struct {
	ctx  context.Context
	r    *Redactor
	hits int
}

func (w *walker) value(key string, v any, depth int) any {
	if depth > maxDepth || w.ctx.Err() != nil {
		w.hits++
		return Marker
	}
	switch v := v.(type) {
	case nil, bool, float64, json.Number, int, int64, uint64:
		return v
	case string:
		return w.text(key, v, depth)
	case map[string]any:
		return w.object(v, depth)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = w.value(key, v[i], depth+1)
		}
		return out
	}
	// Anything else would pass unseen, so it is brought into a known form.
	plain, err := reencode(v)
	if err != nil {
		w.hits++
		return Marker
	}
	return w.value(key, plain, depth+1)
}

func reencode(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return decode(data)
}

func decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

func (w *walker) object(m map[string]any, depth int) any {
	out := make(map[string]any, len(m))
	named := pairName(m)
	copies := map[string]int{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		v, name := m[k], k
		if named != "" && strings.EqualFold(k, "value") {
			name = named
		}
		safe := w.string(k)
		// Two keys may look the same now; neither may be lost.
		unique := safe
		for {
			if _, taken := out[unique]; !taken && (unique == k || !holds(m, unique)) {
				break
			}
			copies[safe]++
			unique = fmt.Sprintf("%s (%d)", safe, copies[safe]+1)
		}
		out[unique] = w.value(name, v, depth+1)
	}
	return out
}

func holds(m map[string]any, k string) bool {
	_, ok := m[k]
	return ok
}

// pairName returns the name in an object like {"name": …, "value": …}.
func pairName(m map[string]any) string {
	for _, k := range []string{"name", "Name", "key", "Key"} {
		if name, ok := m[k].(string); ok {
			return name
		}
	}
	return ""
}

func (w *walker) text(key, s string, depth int) string {
	if len(key) <= maxName && s != "" && len(s) <= 1<<16 {
		at := place{kind: classify(key), quoted: true, phrase: isPhrase(key)}
		switch at.kind {
		case kindNone, kindCookie:
		case kindAuth:
			if scheme, credentials, ok := strings.Cut(s, " "); ok {
				at.scheme = schemes[strings.ToLower(scheme)]
				if credentials != "" && !endsInMarker(credentials) && secret(&at, credentials) {
					w.hits++
					return s[:len(s)-len(credentials)] + Marker
				}
				break
			}
			fallthrough
		case kindPassword, kindSecret, kindToken, kindKey:
			if v := s[:min(len(s), maxValue)]; !endsInMarker(v) && secret(&at, v) {
				w.hits++
				return Marker
			}
		}
	}
	return w.inner(w.string(s), depth)
}

// string hides the secrets of s. When the context has ended, nothing is left.
func (w *walker) string(s string) string {
	out, n, _ := w.r.StringContext(w.ctx, s) // ValueContext returns the error
	w.hits += n
	return out
}

// inner looks into a string that is JSON itself. It is rewritten only if
// something turns up that could not be seen from outside.
func (w *walker) inner(s string, depth int) string {
	trimmed := strings.TrimSpace(s)
	if len(trimmed) < 2 || trimmed[0] != '{' && trimmed[0] != '[' && trimmed[0] != '"' {
		return s
	}
	v, err := decode([]byte(trimmed))
	if err != nil {
		return s
	}
	in := walker{ctx: w.ctx, r: w.r}
	safe := in.value("", v, depth+1)
	if in.hits == 0 {
		return s
	}
	w.hits += in.hits
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(safe); err != nil {
		return Marker
	}
	return strings.TrimSuffix(b.String(), "\n")
}
