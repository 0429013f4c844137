package editortest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf16"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

// document is an open document that is not saved.
type document struct {
	text    string
	version int64
}

// undo is what a file was before an edit; nil means that it was not.
type undo map[string]*string

// Provider is what an extension of VS Code does with one kind of file. A nil
// function is a provider that there is not.
type Provider struct {
	Format   func(text string) string
	Organize func(text string) string
	Symbols  []editor.Symbol
}

// Type changes a document without saving it.
func (x *Extension) Type(path, text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.prepare()
	version := int64(1)
	if d := x.docs[path]; d != nil {
		version = d.version + 1
	}
	x.docs[path] = &document{text, version}
}

// Save saves a document.
func (x *Extension) Save(path string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if d := x.docs[path]; d != nil {
		text := d.text
		if fault := x.save(path, &text); fault != nil {
			panic(fault.Message) // a test's own directory
		}
	}
}

// Dirty says whether a document is not saved.
func (x *Extension) Dirty(path string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.docs[path] != nil
}

// Edits is how many edits can be undone.
func (x *Extension) Edits() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.undo)
}

// live is a document's text. mu is held.
func (x *Extension) live(path string) (string, bool) {
	if d := x.docs[path]; d != nil {
		return d.text, true
	}
	text, ok := readDisk(path)
	return strings.TrimPrefix(text, bom), ok // an editor keeps the mark to itself
}

const bom = "\ufeff"

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

func (x *Extension) edit(method string, params json.RawMessage) (any, *editor.Fault) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var p struct {
		editor.Edit
		Path  string           `json:"path"`
		Known map[string]int64 `json:"known"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, Fault(editor.KindInternal, err.Error())
	}
	switch method {
	case "editor.documents":
		dirty := []editor.Document{}
		for path, d := range x.docs {
			one := editor.Document{Path: path, Version: d.version, EOL: "\n"}
			if v, ok := p.Known[path]; !ok || v != d.version {
				one.Text = &d.text
			}
			dirty = append(dirty, one)
		}
		return map[string]any{"dirty": dirty}, nil
	case "editor.applyEdit":
		return x.apply(p.Edit)
	case "editor.format", "editor.organizeImports":
		by := x.Providers[filepath.Ext(p.Path)].Format
		if method == "editor.organizeImports" {
			by = x.Providers[filepath.Ext(p.Path)].Organize
		}
		text, ok := x.live(p.Path)
		switch {
		case by == nil:
			return nil, Fault(editor.KindNoProvider, "no provider")
		case !ok:
			return nil, Fault(editor.KindNotFound, "no such file")
		}
		after := by(text)
		if fault := x.save(p.Path, &after); fault != nil {
			return nil, fault
		}
		return editor.Rewritten{Changed: after != text, SHA256: sum(after)}, nil
	case "editor.symbols":
		s := x.Providers[filepath.Ext(p.Path)].Symbols
		if s == nil {
			return nil, Fault(editor.KindNoProvider, "no provider")
		}
		return map[string]any{"symbols": s}, nil
	}
	return nil, &editor.Fault{Code: -32601, Message: "no method " + method}
}

// save writes a file, or removes it, and forgets its document.
func (x *Extension) save(path string, text *string) *editor.Fault {
	delete(x.docs, path)
	var err error
	if text == nil {
		err = os.Remove(path)
	} else if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		content := *text
		if old, _ := readDisk(path); strings.HasPrefix(old, bom) {
			content = bom + content
		}
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		return Fault(editor.KindInternal, err.Error())
	}
	return nil
}

// apply verifies all, then changes all.
func (x *Extension) apply(e editor.Edit) (any, *editor.Fault) {
	type conflict struct {
		Path   string `json:"path"`
		Reason string `json:"reason"`
	}
	conflicts := []conflict{}
	before, after := undo{}, map[string]*string{}
	for _, f := range e.Files {
		text, ok := x.live(f.Path)
		switch {
		case after[f.Path] != nil:
			text, ok = *after[f.Path], true // by an earlier entry of this edit
		case ok:
			before[f.Path] = &text
		default:
			before[f.Path] = nil
		}
		switch {
		case f.Kind == editor.ChangeCreate && ok:
			conflicts = append(conflicts, conflict{f.Path, "exists"})
		case f.Kind != editor.ChangeCreate && (!ok || f.SHA256 != "" && sum(text) != f.SHA256):
			conflicts = append(conflicts, conflict{f.Path, "changed"})
		}
		switch f.Kind {
		case editor.ChangeCreate:
			after[f.Path] = f.Text
		case editor.ChangeText:
			made := Edited(text, f.Edits)
			after[f.Path] = &made
		case editor.ChangeDelete:
			after[f.Path] = nil
		case editor.ChangeRename:
			if _, taken := x.live(f.To); taken {
				conflicts = append(conflicts, conflict{f.To, "exists"})
			}
			made := Edited(text, f.Edits)
			after[f.Path], after[f.To], before[f.To] = nil, &made, nil
		}
	}
	if len(conflicts) > 0 {
		return map[string]any{"applied": false, "conflicts": conflicts, "files": []any{}}, nil
	}
	files := []map[string]string{}
	for path, text := range after {
		if text != nil {
			files = append(files, map[string]string{"path": path, "sha256": sum(*text)})
		}
		if fault := x.save(path, text); fault != nil {
			return nil, fault
		}
	}
	x.undo = append(x.undo, before)
	return map[string]any{"applied": true, "conflicts": conflicts, "files": files}, nil
}

// Edited applies edits, which may not overlap, from the end on. Positions count
// UTF-16 units.
func Edited(text string, edits []editor.TextEdit) string {
	units := utf16.Encode([]rune(text))
	starts := []int{0}
	for i, u := range units {
		if u == '\n' {
			starts = append(starts, i+1)
		}
	}
	at := func(p editor.Position) int {
		if p.Line >= len(starts) {
			return len(units)
		}
		return min(starts[p.Line]+p.Character, len(units))
	}
	sorted := append([]editor.TextEdit(nil), edits...)
	sort.SliceStable(sorted, func(i, j int) bool { return at(sorted[i].Start) > at(sorted[j].Start) })
	for _, e := range sorted {
		units = append(units[:at(e.Start):at(e.Start)], append(utf16.Encode([]rune(e.Text)), units[at(e.End):]...)...)
	}
	return string(utf16.Decode(units))
}
