package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Remember writes rules into the user's own policy file in the bridge's
// directory and returns the file. Rules that are there already are not written
// again; all else in the file stays as it is, comments too. Where that cannot
// be done for certain nothing is written, and the error says which lines to add.
func Remember(ctx context.Context, home string, additions ...Addition) (file string, err error) {
	file, err = edit(ctx, home, func(file, text string) (string, error) {
		for _, a := range additions {
			var err error
			if text, err = insert(file, text, a); err != nil {
				return "", err
			}
		}
		return text, nil
	})
	if err != nil && file != "" {
		err = unwritten(file, err, additions)
	}
	return file, err
}

// Forget takes a rule out of that file, with the same care. found is false if
// it is not there.
func Forget(ctx context.Context, home string, a Addition) (file string, found bool, err error) {
	file, err = edit(ctx, home, func(file, text string) (now string, err error) {
		now, found, err = remove(file, text, a)
		return now, err
	})
	if err != nil && file != "" {
		err = &bridge.Error{Code: bridge.CodeInvalid, Message: "the rule was not taken out of " + file, Cause: err, Remedy: "take it out there yourself"}
	}
	return file, found, err
}

// edit changes the user's own policy file while no other program does. It
// returns the file also where that fails.
func edit(ctx context.Context, home string, change func(file, text string) (string, error)) (file string, err error) {
	dir, err := canonicalDir(home)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", home, err)
	}
	file = filepath.Join(dir, UserFile)
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := durable.Lock(ctx, file+".lock")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	mode := fs.FileMode(0o600)
	switch info, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return file, err
	case !info.Mode().IsRegular():
		// The target of a link may be shared, or generated.
		return file, errors.New("it is no regular file")
	default:
		mode = info.Mode().Perm()
	}
	old, err := LoadUser(dir)
	if err != nil {
		return file, err
	}
	text := ""
	if old != nil {
		text = string(old.Data)
	}
	now, err := change(file, text)
	if err != nil || now == text {
		return file, err
	}
	return file, durable.WriteFile(file, []byte(now), mode)
}

func unwritten(file string, cause error, additions []Addition) error {
	var lines []string
	for _, a := range additions {
		lines = append(lines, a.String())
	}
	e := &bridge.Error{Code: bridge.CodeInvalid, Message: "no rule was written into " + file, Cause: cause,
		Remedy: "To have it always, add there yourself: " + strings.Join(lines, ", ")}
	if why := bridge.AsError(cause); why.Code == bridge.CodeUnavailable && why.Remedy != "" { // a full disk, which a person cannot write to either
		e.Code, e.Remedy = why.Code, why.Remedy
	}
	return e
}

// insert returns a policy file with one more rule. It looks for a place in the
// text and then reads the result: only a file that says what it said before and
// the new rule is good.
func insert(name, text string, a Addition) (string, error) {
	before, err := ParseYAML(name, []byte(text))
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(before.Lists[a.List], func(r Rule) bool { return r.Pattern == a.Pattern }) {
		return text, nil
	}
	want := append(patterns(&before), a.List+" "+a.Pattern)
	slices.Sort(want)
	for _, place := range []func(string, Addition) (string, bool){intoList, intoGroup, atEnd} {
		now, ok := place(text, a)
		if !ok {
			continue
		}
		after, err := ParseYAML(name, []byte(now))
		if err == nil && slices.Equal(patterns(&after), want) && sameReadOnly(&before, &after) {
			return now, nil
		}
	}
	return "", errors.New("there is no place for it that is certain to be right")
}

// remove returns a policy file without a rule. As with insert, only a file that
// says what it said before but for that is good.
func remove(name, text string, a Addition) (now string, found bool, err error) {
	before, err := ParseYAML(name, []byte(text))
	if err != nil {
		return "", false, err
	}
	rules := before.Lists[a.List]
	at := slices.IndexFunc(rules, func(r Rule) bool { return r.Pattern == a.Pattern })
	if at < 0 {
		return text, false, nil
	}
	want := patterns(&before)
	gone := slices.Index(want, a.List+" "+a.Pattern)
	want = slices.Delete(want, gone, gone+1)
	for _, now := range withoutRule(strings.SplitAfter(text, "\n"), rules[at]) {
		after, err := ParseYAML(name, []byte(now))
		if err == nil && slices.Equal(patterns(&after), want) && sameReadOnly(&before, &after) {
			return now, true, nil
		}
	}
	return "", true, errors.New("it is written in a way in which nothing else is certain to stay as it is")
}

// withoutRule are the ways in which a file may lose a rule: its line, the line
// and that of its list, or the words on the line.
func withoutRule(lines []string, r Rule) (all []string) {
	at := r.Source.Line - 1
	if at < 0 || at >= len(lines) {
		return nil
	}
	line := lines[at]
	if strings.HasPrefix(strings.TrimSpace(line), "- ") {
		all = append(all, strings.Join(slices.Delete(slices.Clone(lines), at, at+1), ""))
		if at > 0 {
			empty := slices.Delete(slices.Clone(lines), at, at+1)
			empty[at-1] = strings.TrimRight(empty[at-1], "\r\n") + " []\n"
			all = append(all, strings.Join(empty, ""))
		}
	}
	for _, form := range []string{yamlText(r.Pattern), "'" + strings.ReplaceAll(r.Pattern, "'", "''") + "'", r.Pattern} {
		for _, words := range []string{", " + form, "," + form, form + ", ", form + ",", form} {
			for from := 0; ; {
				found := strings.Index(line[from:], words)
				if found < 0 {
					break
				}
				from += found
				changed := slices.Clone(lines)
				changed[at] = line[:from] + line[from+len(words):]
				all = append(all, strings.Join(changed, ""))
				from += len(words)
			}
		}
	}
	return all
}

// patterns are all the rules of a set, each with the list that it is on, sorted.
func patterns(r *Rules) []string {
	var out []string
	for name, rules := range r.Lists {
		for _, rule := range rules {
			out = append(out, name+" "+rule.Pattern)
		}
	}
	slices.Sort(out)
	return out
}

func sameReadOnly(a, b *Rules) bool {
	return (a.ReadOnly == nil) == (b.ReadOnly == nil) && (a.ReadOnly == nil || *a.ReadOnly == *b.ReadOnly)
}

func yamlText(s string) string {
	b, err := json.Marshal(s) // which YAML reads as it is
	if err != nil {
		return `""`
	}
	return string(b)
}

// intoList adds an entry behind the last one of a list in block style, or
// before the bracket that ends one in flow style.
func intoList(text string, a Addition) (string, bool) {
	group, key, _ := strings.Cut(a.List, ".")
	pairs, ok := child(text, group)
	if !ok {
		return "", false
	}
	for _, pair := range pairs {
		items, isList := pair.Value.(*ast.SequenceNode)
		if name, _, ok := keyOf(pair); !ok || name != key || !isList || len(items.Values) == 0 {
			continue
		}
		last := items.Values[len(items.Values)-1]
		lines := strings.SplitAfter(text, "\n")
		at := lineOf(last)
		if items.IsFlowStyle {
			if items.End == nil || items.End.Position == nil {
				return "", false
			}
			at = items.End.Position.Line
			line := []rune(lines[at-1])
			column := items.End.Position.Column - 1
			if column < 0 || column >= len(line) || line[column] != ']' {
				return "", false
			}
			lines[at-1] = string(line[:column]) + ", " + yamlText(a.Pattern) + string(line[column:])
			return strings.Join(lines, ""), true
		}
		indent, _, found := strings.Cut(lines[at-1], "-")
		if !found || strings.TrimSpace(indent) != "" {
			return "", false
		}
		return after(lines, at, indent+"- "+yamlText(a.Pattern)), true
	}
	return "", false
}

// intoGroup adds a list to a group in block style.
func intoGroup(text string, a Addition) (string, bool) {
	group, key, _ := strings.Cut(a.List, ".")
	pairs, ok := child(text, group)
	if !ok || len(pairs) == 0 {
		return "", false
	}
	_, at, ok := keyOf(pairs[0])
	if !ok {
		return "", false
	}
	lines := strings.SplitAfter(text, "\n")
	line := lines[at-1]
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	if indent == "" {
		return "", false
	}
	return after(lines, at-1, indent+key+":\n"+indent+"  - "+yamlText(a.Pattern)), true
}

// atEnd adds a group.
func atEnd(text string, a Addition) (string, bool) {
	group, key, _ := strings.Cut(a.List, ".")
	lines := strings.SplitAfter(text, "\n")
	return after(lines, len(lines), group+":\n  "+key+":\n    - "+yamlText(a.Pattern)), true
}

// after puts text behind a line, which is counted from 1 on.
func after(lines []string, at int, text string) string {
	head := strings.Join(lines[:at], "")
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + text + "\n" + strings.Join(lines[at:], "")
}

// child returns the pairs below a key of a valid file.
func child(text, key string) (out []*ast.MappingValueNode, found bool) {
	file, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil || len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, false
	}
	pairs, _ := mapping(file.Docs[0].Body)
	for _, pair := range pairs {
		if name, _, ok := keyOf(pair); ok && name == key {
			below, _ := mapping(pair.Value)
			out, found = append(out, below...), true
		}
	}
	return out, found
}
