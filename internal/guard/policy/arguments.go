package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds on the arguments that patterns.deny looks at. Beyond them a call is
// denied, since a match could hide in what was not looked at.
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
	keys   []string // scratch
}

// newHaystack collects every string of the arguments at any depth, key=value
// of every scalar, the compact JSON of the whole, and what the analysis found
// in them.
func newHaystack(a *Action) (*haystack, error) {
	h := &haystack{}
	if err := h.walk("", a.Args, 0); err != nil {
		return nil, err
	}
	for i := range a.Commands {
		if err := h.add("command", a.Commands[i].Text); err != nil {
			return nil, err
		}
	}
	for i := range a.Paths {
		if err := h.add("path", a.Paths[i].Rel); err != nil {
			return nil, err
		}
	}
	if a.Args != nil {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(a.Args); err != nil {
			return nil, fmt.Errorf("the arguments cannot be checked: %w", err)
		}
		if err := h.text(strings.TrimSuffix(b.String(), "\n")); err != nil {
			return nil, err
		}
	}
	h.folded = fold(strings.Join(h.texts, "\n"))
	return h, nil
}

func (h *haystack) text(s string) error {
	if s == "" {
		return nil
	}
	// Everything appears up to three times: alone, with its key, in the JSON.
	if h.size += len(s); h.size > 3*maxArgumentBytes || len(h.texts) >= maxArguments {
		return errTooLarge
	}
	h.texts = append(h.texts, s)
	return nil
}

func (h *haystack) add(key, value string) error {
	if err := h.text(value); err != nil || key == "" {
		return err
	}
	return h.text(key + "=" + value)
}

func (h *haystack) walk(key string, v any, depth int) error {
	if depth > maxArgumentDepth {
		return errTooDeep
	}
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return h.add(key, v)
	case bool:
		return h.scalar(key, strconv.FormatBool(v))
	case float64:
		return h.scalar(key, strconv.FormatFloat(v, 'f', -1, 64))
	case int:
		return h.scalar(key, strconv.Itoa(v))
	case json.Number:
		return h.scalar(key, v.String())
	case []string:
		for _, item := range v {
			if err := h.add(key, item); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for _, item := range v {
			if err := h.walk(key, item, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		start := len(h.keys)
		for k := range v {
			h.keys = append(h.keys, k)
		}
		keys := h.keys[start:]
		slices.Sort(keys)
		for _, k := range keys {
			if err := h.walk(k, v[k], depth+1); err != nil {
				return err
			}
		}
		h.keys = h.keys[:start]
		return nil
	default:
		return h.other(key, v, depth)
	}
}

func (h *haystack) scalar(key, value string) error {
	if key == "" {
		return nil
	}
	return h.text(key + "=" + value)
}

// other brings any further type into the shapes that encoding/json decodes
// to.
func (h *haystack) other(key string, v any, depth int) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("the arguments cannot be checked: %w", err)
	}
	if len(data) > maxArgumentBytes {
		return errTooLarge
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var plain any
	if err := dec.Decode(&plain); err != nil {
		return fmt.Errorf("the arguments cannot be checked: %w", err)
	}
	return h.walk(key, plain, depth+1)
}
