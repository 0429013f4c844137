package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

const (
	// MaxFileSize bounds a policy file.
	MaxFileSize = 64 << 10
	// maxNesting bounds brackets in brackets; a policy needs three.
	maxNesting = 8
	// maxKeys bounds the keys of a file; there are fewer than 30 to know.
	maxKeys = 100
)

// plainKeys are the lists that a file may also name at its top level, in the
// environment's dialect.
var plainKeys = map[string]string{
	"allowedTools":    "tools.allow",
	"blockedTools":    "tools.deny",
	"askTools":        "tools.ask",
	"blockedPatterns": "patterns.deny",
}

// ParseYAML reads a policy file; name is how reasons and errors call it. It is
// strict: a key that it does not know, a value of the wrong kind or a pattern
// that cannot be compiled is an error that names the line, and then no rule
// counts. An empty file has no rules.
func ParseYAML(name string, data []byte) (Rules, error) {
	d := &document{name: name, lines: map[string]int{}}
	d.parse(data)
	return d.finish("Correct " + name + "; until then nothing runs under it.")
}

// document is a file being read.
type document struct {
	builder
	name  string
	lines map[string]int // where each list was given
}

func (d *document) faultAt(line int, format string, args ...any) {
	d.fault(Source{d.name, max(1, line)}, fmt.Sprintf(format, args...))
}

func (d *document) parse(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch {
	case len(data) > MaxFileSize:
		d.faultAt(0, "the file is larger than %d bytes", MaxFileSize)
		return
	case !utf8.Valid(data):
		d.faultAt(0, "the file is not UTF-8 text")
		return
	case bytes.IndexByte(data, 0) >= 0:
		d.faultAt(0, "the file holds a NUL character")
		return
	}
	tokens := lexer.Tokenize(string(data))
	if !d.acceptable(tokens) {
		return
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return
	}
	for i, doc := range file.Docs {
		switch {
		case doc == nil || doc.Body == nil:
		case i > 0:
			d.faultAt(lineOf(doc.Body), "there must be one document only")
		default:
			d.body(doc.Body)
		}
	}
}

// acceptable refuses, before anything is built from them, tokens that a policy
// has no use for: anchors and aliases, with which a small file can stand for a
// huge one, tags and directives; and more depth or more keys than a policy can
// have, on which the parser is slow.
func (d *document) acceptable(tokens token.Tokens) bool {
	depth, entries, line, keys := 0, 0, 0, 0
	for _, t := range tokens {
		at := 1
		if t.Position != nil {
			at = t.Position.Line
		}
		if at != line {
			entries, line = 0, at
		}
		switch t.Type {
		case token.AliasType, token.AnchorType:
			d.faultAt(at, "anchors and aliases have no place in a policy; put a pattern that begins with * or & in quotes")
			return false
		case token.TagType:
			d.faultAt(at, "tags have no place in a policy; put a pattern that begins with ! in quotes")
			return false
		case token.DirectiveType, token.MergeKeyType, token.MappingKeyType:
			d.faultAt(at, "directives, merge keys and keys with a question mark have no place in a policy")
			return false
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			entries++
		case token.MappingValueType:
			keys++
		default:
		}
		if depth > maxNesting || entries > maxNesting {
			d.faultAt(at, "it is nested too deeply")
			return false
		}
		if keys > maxKeys {
			d.faultAt(at, "there are more than %d keys", maxKeys)
			return false
		}
	}
	return true
}

// syntax reports where the parser stopped.
func (d *document) syntax(err error) {
	var bad *yaml.SyntaxError
	if !errors.As(err, &bad) || bad.Token == nil || bad.Token.Position == nil {
		d.faultAt(0, "this is not valid YAML")
		return
	}
	d.faultAt(bad.Token.Position.Line, "this is not valid YAML: %s", shorten(oneLine(bad.Message)))
}

func (d *document) body(body ast.Node) {
	pairs, ok := mapping(body)
	if !ok {
		if !isNull(body) {
			d.faultAt(lineOf(body), "there must be a mapping, such as: readOnly: true")
		}
		return
	}
	for _, pair := range pairs {
		d.top(pair)
	}
}

func (d *document) top(pair *ast.MappingValueNode) {
	key, line, ok := keyOf(pair)
	if !ok {
		d.faultAt(line, "keys must be plain names")
		return
	}
	listName, plain := plainKeys[key]
	inner, isMapping := mapping(pair.Value)
	switch {
	case key == "readOnly":
		d.readOnly(pair, line)
	case plain:
		d.list(listName, key, line, pair.Value)
	case len(groupKeys(key)) == 0:
		d.faultAt(line, "unknown key %s%s", quote(key), didYouMean(key, topKeys()))
	case isNull(pair.Value):
	case !isMapping:
		d.faultAt(line, "%s must be a mapping of lists: %s", key, strings.Join(groupKeys(key), ", "))
	default:
		d.group(key, inner)
	}
}

// again reports a list that was given before, perhaps under another key.
func (d *document) again(name, key string, line int) bool {
	first, twice := d.lines[name]
	if twice {
		d.faultAt(line, "%s is given twice; the first time is on line %d", key, first)
	} else {
		d.lines[name] = line
	}
	return twice
}

func (d *document) readOnly(pair *ast.MappingValueNode, line int) {
	if d.again("readOnly", "readOnly", line) {
		return
	}
	value, ok := pair.Value.(*ast.BoolNode)
	if !ok {
		d.faultAt(line, "readOnly must be true or false")
		return
	}
	d.rules.ReadOnly, d.rules.ReadOnlySource = &value.Value, Source{d.name, line}
}

func (d *document) group(group string, pairs []*ast.MappingValueNode) {
	for _, pair := range pairs {
		key, line, ok := keyOf(pair)
		switch {
		case !ok:
			d.faultAt(line, "keys must be plain names")
		case !isList(group + "." + key):
			d.faultAt(line, "unknown key %s%s", quote(group+"."+key), didYouMean(key, groupKeys(group)))
		default:
			d.list(group+"."+key, group+"."+key, line, pair.Value)
		}
	}
}

// list reads the list that is written as key.
func (d *document) list(name, key string, line int, value ast.Node) {
	if d.again(name, key, line) || isNull(value) {
		return
	}
	items, ok := value.(*ast.SequenceNode)
	if !ok {
		d.faultAt(line, "%s must be a list, such as: [\"a\", \"b\"]", key)
		return
	}
	for _, item := range items.Values {
		pattern, ok := scalar(item)
		if !ok {
			d.faultAt(lineOf(item), "%s: every entry must be a text", key)
			continue
		}
		d.add(name, key, pattern, Source{d.name, lineOf(item)})
	}
}

// didYouMean is a hint to append to a complaint about an unknown key.
func didYouMean(key string, known []string) string {
	if nearest := text.Nearest(key, known); nearest != "" {
		return "; did you mean " + quote(nearest) + "?"
	}
	return "; there are " + strings.Join(known, ", ")
}

func topKeys() []string {
	keys := []string{"readOnly"}
	for _, l := range lists {
		if group, _, _ := strings.Cut(l.name, "."); !slices.Contains(keys, group) {
			keys = append(keys, group)
		}
	}
	for key := range plainKeys {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func groupKeys(group string) []string {
	var keys []string
	for _, l := range lists {
		if key, ok := strings.CutPrefix(l.name, group+"."); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

func keyOf(pair *ast.MappingValueNode) (key string, line int, ok bool) {
	s, ok := pair.Key.(*ast.StringNode)
	if !ok {
		return "", lineOf(pair), false
	}
	return s.Value, lineOf(s), true
}

func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	default:
		return nil, false
	}
}

// scalar returns a scalar as it is written: true and 1.10 are fine names.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return strings.TrimRight(n.Value.Value, "\n"), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	default:
		return "", false
	}
}

func isNull(n ast.Node) bool {
	switch n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return true
	default:
		return false
	}
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return max(1, n.GetToken().Position.Line)
}
