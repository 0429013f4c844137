package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Bounds on the arguments that patterns.deny looks at. Beyond them a call is
// denied, since a match could hide in the rest.
const (
	maxArgumentBytes = 1 << 20
	maxArgumentDepth = 64
	maxArguments     = 20000
)

var (
	errTooLarge = errors.New("the arguments are too large to be checked")
	errTooDeep  = errors.New("the arguments are nested too deeply to be checked")
)

// haystack is everything in a call that a regular expression is tried on.
type haystack struct {
	texts  []string
	folded string // all of it in one
	size   int
	err    error // why not everything could be added
}

// newHaystack collects every string of the arguments at any depth, key=value
// of every scalar, the compact JSON of the whole, and what the analysis found
// in them.
func newHaystack(a *Action) (*haystack, error) {
	h := &haystack{}
	h.walk("", a.Args, 0)
	for i := range a.Commands {
		h.add("command", a.Commands[i].Text)
	}
	for i := range a.Paths {
		h.add("path", a.Paths[i].Rel)
	}
	if a.Args != nil && h.err == nil {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(a.Args); err != nil {
			return nil, fmt.Errorf("the arguments cannot be checked: %w", err)
		}
		h.text(strings.TrimSuffix(b.String(), "\n"))
	}
	if h.err != nil {
		return nil, h.err
	}
	h.folded = fold(strings.Join(h.texts, "\n"))
	return h, nil
}

func (h *haystack) text(s string) {
	if s == "" || h.err != nil {
		return
	}
	// Everything appears up to three times: alone, with its key, in the JSON.
	if h.size += len(s); h.size > 3*maxArgumentBytes || len(h.texts) >= maxArguments {
		h.err = errTooLarge
		return
	}
	h.texts = append(h.texts, s)
}

// add adds a string, alone and with its key.
func (h *haystack) add(key, value string) {
	h.text(value)
	h.scalar(key, value)
}

func (h *haystack) scalar(key, value string) {
	if key != "" {
		h.text(key + "=" + value)
	}
}

func (h *haystack) walk(key string, v any, depth int) {
	if depth > maxArgumentDepth {
		h.err = cmp.Or(h.err, errTooDeep)
	}
	if h.err != nil {
		return
	}
	switch v := v.(type) {
	case nil:
	case string:
		h.add(key, v)
	case bool:
		h.scalar(key, strconv.FormatBool(v))
	case float64:
		h.scalar(key, strconv.FormatFloat(v, 'f', -1, 64))
	case int:
		h.scalar(key, strconv.Itoa(v))
	case json.Number:
		h.scalar(key, v.String())
	case []string:
		for _, item := range v {
			h.add(key, item)
		}
	case []any:
		for _, item := range v {
			h.walk(key, item, depth+1)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			h.walk(k, v[k], depth+1)
		}
	default:
		plain, err := reencode(v)
		if err != nil {
			h.err = err
			return
		}
		h.walk(key, plain, depth+1)
	}
}

// reencode brings any further type into the shapes that encoding/json decodes to.
func reencode(v any) (plain any, err error) {
	data, err := json.Marshal(v)
	if err == nil && len(data) > maxArgumentBytes {
		return nil, errTooLarge
	}
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		err = dec.Decode(&plain)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments cannot be checked: %w", err)
	}
	return plain, nil
}
