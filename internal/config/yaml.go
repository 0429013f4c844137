package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// fault is something wrong in config.yaml.
type fault struct {
	line int
	text string
}

// parseYAML returns the settings of a config.yaml by key. Groups may be nested
// mappings (byok: {model: x}) or dotted keys (byok.model: x).
func parseYAML(data []byte, table []setting) (map[string]located, []fault) {
	w := &walker{table: table, values: map[string]located{}}
	// Duplicates are found by the walker, which knows that byok.model may be
	// written in two ways.
	file, err := parser.ParseBytes(withoutBOM(data), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, []fault{syntaxFault(err)}
	}
	for i, doc := range file.Docs {
		switch {
		case doc == nil || doc.Body == nil:
		case i > 0:
			w.fault(doc.Body, "there must be one document only")
		default:
			w.document(doc.Body)
		}
	}
	return w.values, w.faults
}

// syntaxFault takes the line and the bare reason from the parser's error,
// whose full text quotes the file and so might show a secret.
func syntaxFault(err error) fault {
	f := fault{line: 1, text: "this is not valid YAML"}
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) {
		return f
	}
	if syntax.Token != nil && syntax.Token.Position != nil {
		f.line = max(1, syntax.Token.Position.Line)
	}
	if !strings.Contains(syntax.Message, `"`) {
		f.text += ": " + syntax.Message
	}
	return f
}

// walker collects the settings of one document.
type walker struct {
	table  []setting
	values map[string]located
	faults []fault
}

func (w *walker) fault(n ast.Node, format string, args ...any) {
	w.faults = append(w.faults, fault{lineOf(n), fmt.Sprintf(format, args...)})
}

func (w *walker) document(body ast.Node) {
	if pairs, ok := mapping(body); ok {
		w.mapping("", pairs)
		return
	}
	switch body.(type) {
	case *ast.NullNode, *ast.CommentGroupNode:
	default:
		w.fault(body, "there must be a mapping of settings, such as: log_level: debug")
	}
}

func (w *walker) mapping(prefix string, pairs []*ast.MappingValueNode) {
	for _, pair := range pairs {
		if pair.Key == nil || pair.Key.IsMergeKey() || pair.Key.GetToken() == nil {
			w.fault(pair, "keys must be plain names")
			continue
		}
		key := prefix + pair.Key.GetToken().Value
		s := find(w.table, key)
		inner, isMapping := mapping(pair.Value)
		switch {
		case s != nil:
			w.setting(s, pair)
		case isMapping && len(inner) > 0:
			w.mapping(key+".", inner)
		case firstOf(w.table, key) == "":
			w.fault(pair.Key, "unknown key %s%s", quote(key), didYouMean(w.table, key))
		case !isMapping && !isNull(pair.Value):
			w.fault(pair.Key, "%s is a group; set what is in it, such as %s", key, firstOf(w.table, key))
		}
	}
}

func (w *walker) setting(s *setting, pair *ast.MappingValueNode) {
	if s.noFile() {
		w.fault(pair.Key, "%s cannot be set in the file that it helps to find; set %s in the environment", s.key, s.env)
		return
	}
	if earlier, ok := w.values[s.key]; ok {
		w.fault(pair.Key, "%s is set twice; the first time is on line %d", s.key, earlier.line)
		return
	}
	value, ok := valueOf(pair.Value, s.yaml)
	if !ok {
		w.fault(pair.Key, "%s must be %s", s.key, s.allowed)
		return
	}
	w.values[s.key] = located{value, lineOf(pair.Key)}
}

// mapping returns the pairs of a mapping node.
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

// scalar returns a scalar as it is written.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	default:
		return "", isNull(n)
	}
}

func isNull(n ast.Node) bool {
	_, ok := n.(*ast.NullNode)
	return ok || n == nil
}

// form is a shape that a value may have in config.yaml besides a scalar.
type form int

const (
	scalarOnly  form = iota
	list             // of scalars
	textMapping      // from names to scalars
	anyMapping       // with values as YAML means them
)

// valueOf returns a node as text: a scalar as it is written, so that one parser
// judges it whether it comes from here or from the environment, and a list or
// mapping, where f allows it, as JSON.
func valueOf(n ast.Node, f form) (string, bool) {
	if text, ok := scalar(n); ok {
		return text, true
	}
	_, isList := n.(*ast.SequenceNode)
	_, isMapping := mapping(n)
	if f == scalarOnly || f == list && !isList || f != list && !isMapping {
		return "", false
	}
	value, ok := decode(n, f == anyMapping)
	data, err := json.Marshal(value)
	return string(data), ok && err == nil
}

// decode is a node as encoding/json would have decoded it. Its elements are
// text unless typed. Aliases, tags and keys that occur twice are refused: no
// setting is complicated enough to need them, and one of two keys would be lost.
func decode(n ast.Node, typed bool) (any, bool) {
	inner := func(n ast.Node) (any, bool) {
		if typed {
			return decode(n, true)
		}
		text, ok := scalar(n)
		return text, ok && !isNull(n)
	}
	if pairs, ok := mapping(n); ok {
		out := map[string]any{}
		for _, pair := range pairs {
			if pair.Key == nil || pair.Key.IsMergeKey() || pair.Key.GetToken() == nil {
				return nil, false
			}
			name := pair.Key.GetToken().Value
			value, ok := inner(pair.Value)
			if _, twice := out[name]; !ok || twice {
				return nil, false
			}
			out[name] = value
		}
		return out, true
	}
	switch n := n.(type) {
	case *ast.SequenceNode:
		out := []any{}
		for _, v := range n.Values {
			value, ok := inner(v)
			if !ok {
				return nil, false
			}
			out = append(out, value)
		}
		return out, true
	case *ast.BoolNode:
		return n.Value, true
	case *ast.IntegerNode:
		return n.Value, true
	case *ast.FloatNode:
		return n.Value, true
	}
	if isNull(n) {
		return nil, true
	}
	text, ok := scalar(n)
	return text, ok
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return max(1, n.GetToken().Position.Line)
}
