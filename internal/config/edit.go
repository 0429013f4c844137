package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Change is a setting and the value that config.yaml shall give it. An empty
// value leaves it unset.
type Change struct{ Key, Value string }

// Changed is the text of a config.yaml with every change made. Comments, order
// and all other settings stay. It checks the values, but not whether they fit
// each other: see Options.File. o.Dir is what relative paths count from, as a
// person at a shell means them. path names the file in errors.
func Changed(o Options, path string, data []byte, changes []Change) ([]byte, error) {
	return edited(path, data, func(f *yamlFile) error {
		for _, c := range changes {
			if err := f.change(c, place{dir: o.Dir, home: o.HomeDir}); err != nil {
				return err
			}
		}
		return nil
	})
}

// edited runs edit on the lines of a file, whose kind of line ends stays.
func edited(path string, data []byte, edit func(*yamlFile) error) ([]byte, error) {
	text := string(withoutBOM(data))
	mark := string(data[:len(data)-len(text)])
	windows := strings.Contains(text, "\r\n")
	f := &yamlFile{lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), path: path, table: settings(&Config{})}
	if err := edit(f); err != nil {
		return nil, err
	}
	out := f.text()
	if windows {
		out = strings.ReplaceAll(out, "\n", "\r\n")
	}
	return []byte(mark + out), nil
}

// CheckKey returns an error for a key that config.yaml cannot have.
func CheckKey(key string) error {
	table := settings(&Config{})
	s := find(table, key)
	switch {
	case s == nil && firstOf(table, key) != "":
		return refused(key+" is a group of settings", "name one of them, such as "+firstOf(table, key))
	case s == nil:
		remedy := "see `copilot-bridge config show` for all settings"
		if near := nearestKey(table, key); near != "" {
			remedy = "did you mean " + near + "?"
		}
		return refused("there is no setting "+quote(key), remedy)
	}
	return nil
}

func refused(message, remedy string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: message, Remedy: remedy}
}

// yamlFile is a config.yaml that is being changed. Its text is changed line by
// line, because writing the parsed file again would lose its layout.
type yamlFile struct {
	lines []string
	path  string
	table []setting
}

// errForm says that a file has a form that is valid but not understood here.
var errForm = errors.New("cannot be changed in place")

func (f *yamlFile) text() string { return strings.Join(f.lines, "\n") }

// root returns the pairs of the file, or nothing for an empty one.
func (f *yamlFile) root() ([]*ast.MappingValueNode, error) {
	file, err := parser.ParseBytes([]byte(f.text()), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		fault := syntaxFault(err)
		return nil, refused(fmt.Sprintf("%s:%d: %s", f.path, fault.line, fault.text), "Correct it with `copilot-bridge config edit`.")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	body := file.Docs[0].Body
	pairs, ok := mapping(body)
	if _, isComment := body.(*ast.CommentGroupNode); isComment || isNull(body) {
		return nil, nil
	}
	if !ok || len(file.Docs) > 1 || flow(body) {
		return nil, errForm
	}
	return pairs, nil
}

func flow(n ast.Node) bool {
	m, ok := n.(*ast.MappingNode)
	return ok && m.IsFlowStyle
}

// change sets one setting, and makes sure that nothing else has changed.
func (f *yamlFile) change(c Change, at place) error {
	if err := CheckKey(c.Key); err != nil {
		return err
	}
	s := find(f.table, c.Key)
	if s.noFile() {
		return refused(fmt.Sprintf("%s cannot be set in the file that it helps to find", s.key), "set "+s.env+" in the environment")
	}
	want := c.Value
	if !s.verbatim {
		want = strings.TrimSpace(want)
	}
	if want != "" {
		if err := s.set(want, at); err != nil {
			r := &refusal{}
			_ = errors.As(err, &r)
			shown := "=" + quote(want)
			if r.hide || s.secret() {
				shown = " (hidden)"
			}
			if r.text == "" {
				r.text = "must be " + s.allowed
			}
			return refused(s.key+shown+": "+r.text, "Nothing was written.")
		}
		if here := s.text(); s.set(want, place{dir: "/elsewhere", home: at.home}) == nil && !s.secret() && s.text() != here {
			want = here // it names files from the working directory
		}
	}
	before, faults := parseYAML([]byte(f.text()), f.table)
	lines := f.lines
	var err error
	for _, form := range []string{want, inQuotes(want)} {
		f.lines = slices.Clone(lines)
		if err = f.put(c.Key, form); err == nil {
			err = f.onlyChanged(before, len(faults), c.Key, want)
		}
		if err == nil || !errors.Is(err, errForm) {
			return err
		}
	}
	f.lines = lines
	return refused(fmt.Sprintf("%s is set in a form that cannot be changed in place", c.Key), "Change it with `copilot-bridge config edit`.")
}

func inQuotes(s string) string {
	data, err := json.Marshal(s)
	if err != nil { // texts can be encoded
		return `""`
	}
	return string(data)
}

// onlyChanged compares the settings of the file with those before a change.
func (f *yamlFile) onlyChanged(before map[string]located, faults int, key, want string) error {
	after, left := parseYAML([]byte(f.text()), f.table)
	if len(left) > faults {
		return errForm
	}
	for i := range f.table {
		k := f.table[i].key
		if k == key && !f.table[i].equal(after[k].value, want) || k != key && after[k].value != before[k].value {
			return errForm
		}
	}
	return nil
}

// equal says whether two texts mean the same value.
func (s *setting) equal(a, b string) bool {
	value := func(text string) string {
		if strings.TrimSpace(text) == "" || s.set(text, place{dir: "/", home: "/"}) != nil {
			return ""
		}
		if s.secret() {
			return s.reveal()
		}
		return s.text()
	}
	return value(a) == value(b)
}

// put writes "key: value" where it belongs.
func (f *yamlFile) put(key, value string) error {
	pairs, err := f.root()
	if err != nil {
		return err
	}
	group, name, _ := strings.Cut(key, ".")
	indent := ""
	var sibling *ast.MappingValueNode
	for _, p := range pairs {
		indent = indentOf(p)
		switch k := p.Key.GetToken().Value; {
		case k == key:
			return f.replace(p, key, []string{value})
		case k == group && name != "" && isNull(p.Value):
			return f.insert(f.end(p), indent+"  "+name+": "+value)
		case k == group && name != "" && flow(p.Value):
			return f.replaceFlow(p, name, value)
		case k == group && name != "":
			inner, ok := mapping(p.Value)
			if !ok || len(inner) == 0 {
				return errForm
			}
			for _, in := range inner {
				if in.Key.GetToken().Value == name {
					return f.replace(in, name, []string{value})
				}
			}
			last := inner[len(inner)-1]
			return f.insert(f.end(last), indentOf(last)+name+": "+value)
		case strings.HasPrefix(k, group+".") && name != "":
			sibling = p
		}
	}
	line := indent + key + ": " + value
	explained := regexp.MustCompile(`^\s*#\s?` + regexp.QuoteMeta(key) + `:`)
	if i := slices.IndexFunc(f.lines, explained.MatchString); i >= 0 {
		return f.insert(i+1, line)
	}
	if sibling != nil {
		return f.insert(f.end(sibling), line)
	}
	return f.append(line)
}

func indentOf(p *ast.MappingValueNode) string {
	return strings.Repeat(" ", p.Key.GetToken().Position.Column-1)
}

// end is the line after a pair of a block mapping: the first that does not
// belong to its value.
func (f *yamlFile) end(p *ast.MappingValueNode) int {
	depth := len(indentOf(p))
	_, isList := p.Value.(*ast.SequenceNode)
	end := lineOf(p.Key)
	for i := end; i < len(f.lines); i++ {
		line := strings.TrimRight(f.lines[i], " \t")
		inner := strings.TrimLeft(line, " ")
		switch in := len(line) - len(inner); {
		case line == "":
			continue
		case in > depth, isList && in == depth && strings.HasPrefix(inner, "-"):
			end = i + 1
			continue
		}
		break
	}
	return end
}

func (f *yamlFile) insert(at int, lines ...string) error {
	f.lines = slices.Insert(f.lines, at, lines...)
	return nil
}

// append adds lines at the end of the file.
func (f *yamlFile) append(lines ...string) error {
	end := len(f.lines)
	for end > 0 && strings.TrimSpace(f.lines[end-1]) == "" {
		end--
	}
	f.lines = append(append(f.lines[:end:end], lines...), "")
	return nil
}

// replace gives a pair another value, whose further lines follow it. A comment
// behind the old value stays.
func (f *yamlFile) replace(p *ast.MappingValueNode, key string, value []string) error {
	first := lineOf(p.Key) - 1
	line := f.lines[first]
	comment := ""
	for _, t := range lexer.Tokenize(f.text()) {
		if t.Type == token.CommentType && t.Position.Line == first+1 {
			before, ok := strings.CutSuffix(strings.TrimRight(line, " \t"), "#"+strings.TrimRight(t.Value, " \t"))
			if !ok {
				return errForm
			}
			comment = line[len(strings.TrimRight(before, " \t")):]
		}
	}
	written := strings.TrimRight(indentOf(p)+key+": "+value[0], " ") + comment
	f.lines = slices.Replace(f.lines, first, f.end(p), append([]string{written}, value[1:]...)...)
	return nil
}

// replaceFlow sets a name in a mapping that is written on one line, such as
// serve: {port: 8788}.
func (f *yamlFile) replaceFlow(p *ast.MappingValueNode, name, value string) error {
	m, ok := p.Value.(*ast.MappingNode)
	if !ok {
		return errForm
	}
	for _, in := range m.Values {
		if in.Key.GetToken().Value != name {
			continue
		}
		old := in.Value.GetToken()
		if _, plain := scalar(in.Value); !plain || old.Position == nil {
			return errForm
		}
		return f.swap(old.Position, strings.TrimSpace(old.Origin), value)
	}
	with := "{" + name + ": " + value
	if len(m.Values) > 0 {
		with += ", "
	}
	return f.swap(m.Start.Position, "{", with)
}

// swap replaces a text at a position.
func (f *yamlFile) swap(at *token.Position, old, with string) error {
	runes := []rune(f.lines[at.Line-1])
	if at.Column < 1 || at.Column > len(runes) {
		return errForm
	}
	rest, ok := strings.CutPrefix(string(runes[at.Column-1:]), old)
	if !ok || old == "" {
		return errForm
	}
	f.lines[at.Line-1] = string(runes[:at.Column-1]) + with + rest
	return nil
}

// Template is a commented config.yaml: every setting that the file may have,
// with its default, switched off.
func Template() []byte {
	var b strings.Builder
	b.WriteString("# Settings of copilot-bridge. Remove the # before a setting to use it.\n" +
		"# Flags and environment variables override this file. `copilot-bridge config show`\n# prints what is in force, and from where.\n")
	group := "-"
	for _, k := range Keys() {
		if !k.InFile {
			continue
		}
		if g, _, _ := strings.Cut(k.Key, "."); g != group {
			b.WriteString("\n")
			group = g
		}
		about := k.Description
		if k.Secret {
			about += " (a secret: better in " + k.Env + ")"
		}
		fmt.Fprintf(&b, "# %s; %s\n", about, k.Allowed)
		value := ""
		if s := find(settings(&Config{}), k.Key); s.fallback != "" {
			value = " " + s.fallback
		} else if k.Default != "" {
			value = "   # default: " + k.Default
		}
		fmt.Fprintf(&b, "# %s:%s\n\n", k.Key, value)
	}
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}
