package paths

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Bounds of what Collect looks through. Beyond them it fails, and the call is
// to be denied.
const (
	maxDepth  = 64
	maxValues = 100_000
	maxBytes  = 32 << 20
)

// Argument is one path that a tool's arguments mention.
type Argument struct {
	Key   string // where it stands, such as edits[0].path
	Value string
	// Certain is set when the key says that this is a path, or a patch names
	// the file. Otherwise the value only looks like one; whether it is depends
	// on the tool.
	Certain bool
	// Patch is set for a file that a patch names, and for where a link that
	// the patch makes would point.
	Patch bool
	// Glob is set under keys that hold patterns. For some tools these are
	// globs, for others regular expressions: only the caller knows.
	Glob bool
}

// Collect returns every path-like argument in args, which is decoded JSON, in
// a fixed order. Keys decide first: keys that name paths, keys that hold
// patches, keys that hold free text and are left alone. Under any other key a
// value counts if it is written like a path. JSON inside a string is looked
// into. Shell commands are not: package shell reads those.
func Collect(args any) ([]Argument, error) {
	c := collector{}
	if err := c.value("", "", args, 0); err != nil {
		return nil, err
	}
	return c.found, nil
}

type collector struct {
	found  []Argument
	values int
	bytes  int
}

// value walks v, which stands at place under key.
func (c *collector) value(place, key string, v any, depth int) error {
	if depth > maxDepth {
		return tooMuch("are nested too deeply")
	}
	if c.values++; c.values > maxValues {
		return tooMuch("have too many values")
	}
	switch v := v.(type) {
	case nil, bool, float64, float32, int, int64, json.Number:
		return nil
	case string:
		return c.text(place, key, v, depth)
	case []any:
		for i, e := range v {
			if err := c.value(place+"["+strconv.Itoa(i)+"]", key, e, depth+1); err != nil {
				return err
			}
		}
		return nil
	case []string:
		for i, e := range v {
			if err := c.value(place+"["+strconv.Itoa(i)+"]", key, e, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		return c.object(place, key, v, depth)
	case json.RawMessage:
		var inner any
		if err := json.Unmarshal(v, &inner); err != nil {
			return tooMuch("are not valid JSON")
		}
		return c.value(place, key, inner, depth+1)
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the arguments hold a %T, which cannot be checked", v), Cause: err}
		}
		return c.value(place, key, json.RawMessage(raw), depth+1)
	}
}

func (c *collector) object(place, key string, obj map[string]any, depth int) error {
	named := kindOf(key) == pathKey
	for _, k := range slices.Sorted(maps.Keys(obj)) {
		if c.bytes += len(k); c.bytes > maxBytes {
			return tooMuch("are too large")
		}
		at := k
		if place != "" {
			at = place + "." + k
		}
		// Some tools take files as an object, from name to content.
		if looksLikePath(k) || named && strings.ContainsAny(k, `/\.`) {
			c.add(Argument{Key: at, Value: k, Certain: named})
		}
		if err := c.value(at, k, obj[k], depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) text(place, key, s string, depth int) error {
	if c.bytes += len(s); c.bytes > maxBytes {
		return tooMuch("are too large")
	}
	switch kindOf(key) {
	case pathKey:
		c.add(Argument{Key: place, Value: s, Certain: true})
		return nil
	case roleKey:
		if !strings.ContainsAny(s, "\n\r") && !hasScheme(s) || isFileURL(s) {
			c.add(Argument{Key: place, Value: s, Certain: true})
			return nil
		}
	case patchKey:
		c.patch(place, s)
		return nil
	case patternKey:
		if strings.ContainsAny(s, `/\~`) || s == ".." || looksLikePath(s) {
			c.add(Argument{Key: place, Value: s, Glob: true})
		}
		return nil
	case textKey:
		return nil
	case otherKey:
	}
	if isPatch(s) {
		c.patch(place, s)
		return nil
	}
	if inner, ok := embedded(s); ok {
		return c.value(place, key, inner, depth+1)
	}
	c.lookalikes(place, s)
	return nil
}

// lookalikes takes a value that is one path, or a list of them by lines.
func (c *collector) lookalikes(place, s string) {
	var found []Argument
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if !looksLikePath(line) {
			return
		}
		found = append(found, Argument{Key: place, Value: line})
	}
	for _, a := range found {
		c.add(a)
	}
}

func (c *collector) add(a Argument) { c.found = append(c.found, a) }

// embedded decodes a string that is itself a JSON object or array.
func embedded(s string) (any, bool) {
	t := strings.TrimSpace(s)
	if t == "" || t[0] != '{' && t[0] != '[' {
		return nil, false
	}
	var v any
	if json.Unmarshal([]byte(t), &v) != nil {
		return nil, false
	}
	return v, true
}

// looksLikePath goes by how a value is written.
func looksLikePath(s string) bool {
	s = strings.TrimSpace(s)
	if s == "" || s == "/" || s == ".." || s == "~" {
		return s != ""
	}
	switch {
	case s[0] == '/', s[0] == '\\', isFileURL(s):
		return true
	case strings.HasPrefix(s, "./"), strings.HasPrefix(s, "../"), strings.HasPrefix(s, `.\`), strings.HasPrefix(s, `..\`):
		return true
	case strings.HasPrefix(s, "~") && (isSlash(s[1]) || strings.ContainsAny(s, `/\`)):
		return true
	case strings.HasPrefix(s, "$HOME"), strings.HasPrefix(s, "${HOME}"), strings.HasPrefix(s, "%USERPROFILE%"):
		return true
	case isDrive(s) && len(s) > 2 && isSlash(s[2]):
		return true
	}
	if strings.IndexFunc(s, unicode.IsSpace) >= 0 || hasScheme(s) {
		return false
	}
	return strings.Contains(s, "/../") || strings.HasSuffix(s, "/..") || strings.Contains(s, `\..\`) || strings.HasSuffix(s, `\..`)
}

func tooMuch(what string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: "the tool's arguments " + what + ", so the paths in them cannot be checked"}
}
