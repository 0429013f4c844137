package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/language"
)

// documents is a window as the workspace wants it. Texts that were sent once
// are kept by their version.
type documents struct {
	conn *editor.Conn

	mu    sync.Mutex
	known map[string]version
}

type version struct {
	number int64
	text   string
}

// Unsaved returns the texts that are not saved.
func (d *documents) Unsaved(ctx context.Context) (map[string]string, error) {
	d.mu.Lock()
	have := make(map[string]int64, len(d.known))
	kept := make(map[string]version, len(d.known))
	for path, v := range d.known {
		have[path], kept[path] = v.number, v
	}
	d.mu.Unlock()
	dirty, err := d.conn.Documents(ctx, have)
	if err != nil {
		return nil, err
	}
	texts, now := make(map[string]string, len(dirty)), make(map[string]version, len(dirty))
	for _, doc := range dirty {
		v := version{number: doc.Version}
		if doc.Text != nil {
			v.text = *doc.Text
		} else {
			v.text = kept[doc.Path].text
		}
		texts[filepath.Clean(doc.Path)], now[doc.Path] = v.text, v
	}
	// Of two answers at a time the later one may win: either is right about
	// the versions that it names.
	d.mu.Lock()
	d.known = now
	d.mu.Unlock()
	return texts, nil
}

// Edit changes files as one step.
func (d *documents) Edit(ctx context.Context, label string, changes []workspace.Change) (workspace.Edited, error) {
	e := editor.Edit{Label: label, Save: true, Files: []editor.FileChange{}}
	for _, c := range changes {
		f := editor.FileChange{Path: c.Path}
		if c.Before != nil {
			f.SHA256 = sumOf(*c.Before)
		}
		switch {
		case c.After == nil:
			f.Kind = editor.ChangeDelete
		case c.Before == nil:
			f.Kind, f.Text = editor.ChangeCreate, c.After
		default:
			f.Kind, f.Edits = editor.ChangeText, editor.Between(*c.Before, *c.After)
			if c.To != "" {
				f.Kind, f.To = editor.ChangeRename, c.To
			}
		}
		e.Files = append(e.Files, f)
	}
	r, err := d.conn.ApplyEdit(ctx, e)
	if err != nil {
		return workspace.Edited{}, err
	}
	out := workspace.Edited{Conflicts: map[string]string{}, Sums: map[string]string{}}
	for _, c := range r.Conflicts {
		out.Conflicts[filepath.Clean(c.Path)] = c.Reason
	}
	for _, f := range r.Files {
		out.Sums[filepath.Clean(f.Path)] = f.SHA256
	}
	if !r.Applied && len(out.Conflicts) == 0 {
		out.Conflicts[""] = "the editor did not apply it"
	}
	return out, nil
}

func sumOf(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// Format, Organize and Symbols use what the editor has for a language.
func (d *documents) Format(ctx context.Context, path string) (string, bool, error) {
	r, err := d.conn.Format(ctx, path)
	return r.SHA256, r.Changed, err
}

func (d *documents) Organize(ctx context.Context, path string) (string, bool, error) {
	r, err := d.conn.OrganizeImports(ctx, path)
	return r.SHA256, r.Changed, err
}

func (d *documents) Symbols(ctx context.Context, path string) ([]language.Declared, error) {
	found, err := d.conn.Symbols(ctx, path)
	return declared(found), err
}

func declared(found []editor.Symbol) []language.Declared {
	at := func(a, b editor.Position) [2]language.Place {
		place := func(p editor.Position) language.Place {
			return language.Place{Line: uint32(max(0, p.Line)), Character: uint32(max(0, p.Character))}
		}
		return [2]language.Place{place(a), place(b)}
	}
	var out []language.Declared
	for _, s := range found {
		out = append(out, language.Declared{Name: s.Name, Detail: s.Detail, Kind: s.Kind, Range: at(s.Start, s.End),
			Selection: at(s.SelectionStart, s.SelectionEnd), Children: declared(s.Children)})
	}
	return out
}
