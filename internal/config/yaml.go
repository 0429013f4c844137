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
		case !isGroup(w.table, key):
			w.fault(pair.Key, "unknown key %s%s", quote(key), didYouMean(w.table, key))
		case !isMapping && !isNull(pair.Value):
			w.fault(pair.Key, "%s is a group; set what is in it, such as %s", key, firstOf(w.table, key))
		}
	}
}

func (w *walker) setting(s *setting, pair *ast.MappingValueNode) {
	if s.noFile {
		w.fault(pair.Key, "%s cannot be set in the file that it helps to find; set %s in the environment", s.key, s.env)
		return
	}
	if earlier, ok := w.values[s.key]; ok {
		w.fault(pair.Key, "%s is set twice; the first time is on line %d", s.key, earlier.line)
		return
	}
	value, ok := scalar(pair.Value)
	if !ok && s.list {
		value, ok = sequence(pair.Value)
	}
	if !ok && s.pairs {
		value, ok = object(pair.Value)
	}
	if !ok && s.tree {
		value, ok = tree(pair.Value)
	}
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

// scalar returns a scalar as it is written, so that one parser judges it
// whether it comes from here or from the environment. Aliases, tags and the
// like are left out: no setting is complicated enough to need them.
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

// sequence returns a sequence of scalars as a JSON array.
func sequence(n ast.Node) (string, bool) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return "", false
	}
	items := []string{}
	for _, v := range seq.Values {
		item, ok := scalar(v)
		if !ok || isNull(v) {
			return "", false
		}
		items = append(items, item)
	}
	return jsonArray(items), true
}

// object returns a mapping of scalars as a JSON object. A key that stands
// there twice is refused: one of the two would be lost.
func object(n ast.Node) (string, bool) {
	inner, ok := mapping(n)
	if !ok {
		return "", false
	}
	out := map[string]string{}
	for _, pair := range inner {
		value, ok := scalar(pair.Value)
		if !ok || isNull(pair.Value) || pair.Key == nil || pair.Key.GetToken() == nil {
			return "", false
		}
		name := pair.Key.GetToken().Value
		if _, twice := out[name]; twice {
			return "", false
		}
		out[name] = value
	}
	data, err := json.Marshal(out)
	return string(data), err == nil
}

// tree returns a mapping as a JSON object, its values as YAML means them.
func tree(n ast.Node) (string, bool) {
	if _, ok := mapping(n); !ok {
		return "", false
	}
	value, ok := plainValue(n)
	if !ok {
		return "", false
	}
	data, err := json.Marshal(value)
	return string(data), err == nil
}

// plainValue is a node as encoding/json would have decoded it. Aliases, tags
// and keys that stand there twice are refused, as they are elsewhere.
func plainValue(n ast.Node) (any, bool) {
	if inner, ok := mapping(n); ok {
		out := map[string]any{}
		for _, pair := range inner {
			if pair.Key == nil || pair.Key.IsMergeKey() || pair.Key.GetToken() == nil {
				return nil, false
			}
			name := pair.Key.GetToken().Value
			value, ok := plainValue(pair.Value)
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
			value, ok := plainValue(v)
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
