package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
)

// Editor is a running editor in which files of the workspace may be open:
// *editor.Conn. All paths are absolute. Its methods are called concurrently;
// CodeUnsupported means that the editor has no extension that can do it.
type Editor interface {
	// Unsaved returns the texts that differ from their files, by path.
	Unsaved(ctx context.Context) (map[string]string, error)
	// ApplyEdit changes files in one step that can be undone as one, and saves
	// them, or changes none and says why.
	ApplyEdit(ctx context.Context, e editor.Edit) (editor.Applied, error)
	Format(ctx context.Context, path string) (editor.Rewritten, error)
	OrganizeImports(ctx context.Context, path string) (editor.Rewritten, error)
	Symbols(ctx context.Context, path string) ([]editor.Symbol, error)
}

// change is what an editor does to one file. before is nil for a file that is
// created, after for one that is deleted; to is its new path, if it gets one.
func change(path, to string, before, after *string) editor.FileChange {
	c := editor.FileChange{Path: path}
	if before != nil {
		c.SHA256 = sumOf(*before)
	}
	switch {
	case after == nil:
		c.Kind = editor.ChangeDelete
	case before == nil:
		c.Kind, c.Text = editor.ChangeCreate, after
	default:
		c.Kind, c.Edits = editor.ChangeText, editor.Between(*before, *after)
		if to != "" {
			c.Kind, c.To = editor.ChangeRename, to
		}
	}
	return c
}

// applyEdit has the editor change files, and returns why it did not and the
// SHA-256 of what it saved, both by path.
func applyEdit(ctx context.Context, ed Editor, what string, changes []editor.FileChange) (conflicts, sums map[string]string, err error) {
	r, err := ed.ApplyEdit(ctx, editor.Edit{Label: "Copilot Bridge: " + what, Save: true, Files: changes})
	if err != nil {
		return nil, nil, err
	}
	conflicts, sums = map[string]string{}, map[string]string{}
	for _, c := range r.Conflicts {
		conflicts[filepath.Clean(c.Path)] = c.Reason
	}
	for _, f := range r.Files {
		sums[filepath.Clean(f.Path)] = f.SHA256
	}
	if !r.Applied && len(conflicts) == 0 {
		conflicts[""] = "the editor did not apply it"
	}
	return conflicts, sums, nil
}

// unsaved are the texts that the editor has not saved, by their path in the
// workspace; nil without an editor.
func (w *Workspace) unsaved(ctx context.Context) (map[string]string, error) {
	if w.opts.Editor == nil {
		return nil, nil
	}
	all, err := w.opts.Editor.Unsaved(ctx)
	if err != nil {
		return nil, err
	}
	roots := []string{w.dir}
	if plain, err := filepath.EvalSymlinks(w.dir); err == nil && plain != w.dir {
		roots = append(roots, plain)
	}
	out := map[string]string{}
	for name, text := range all {
		for _, root := range roots {
			if rel, err := filepath.Rel(root, name); err == nil && filepath.IsLocal(rel) {
				out[filepath.ToSlash(rel)] = text
			}
		}
	}
	return out, nil
}

// live is the text of one file that is not saved, however its path is written.
func (w *Workspace) live(ctx context.Context, name string) (text string, ok bool, err error) {
	all, err := w.unsaved(ctx)
	if len(all) == 0 || err != nil {
		return "", false, err
	}
	if text, ok = all[path.Clean(filepath.ToSlash(name))]; ok {
		return text, true, nil
	}
	// Through a link it has another name.
	root, err := filepath.EvalSymlinks(w.dir)
	if err == nil {
		var plain, rel string
		if plain, err = filepath.EvalSymlinks(filepath.Join(root, filepath.FromSlash(name))); err == nil {
			if rel, err = filepath.Rel(root, plain); err == nil {
				text, ok = all[filepath.ToSlash(rel)]
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // reading it reports that
	}
	return text, ok, err
}

// at is the absolute path of a file that exists inside the workspace.
func (w *Workspace) at(name string) (string, error) {
	info, err := w.root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", &bridge.Error{Code: bridge.CodeNotFound, Message: name + " cannot be read", Cause: err, Remedy: "Name a file that is there."}
	}
	return filepath.Join(w.dir, filepath.FromSlash(name)), nil
}

const mark = "\ufeff" // of byte order

// editable says that an editor can hold a text and would save it as it is:
// UTF-8 whose lines all end in the same way.
func editable(text string) bool {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return false
	}
	returns := strings.Count(text, "\r")
	return returns == 0 || returns == strings.Count(text, "\r\n") && returns == strings.Count(text, "\n")
}

// unmarked takes the byte order mark off both, which an editor keeps to
// itself; a change that adds or removes one is none for it.
func unmarked(before, after *string) (b, a *string, ok bool) {
	if before == nil || after == nil {
		for _, text := range []*string{before, after} {
			if text != nil && strings.HasPrefix(*text, mark) && after != nil {
				return nil, nil, false // a new file would lose it
			}
		}
		if before != nil {
			bare := strings.TrimPrefix(*before, mark)
			before = &bare
		}
		return before, after, true
	}
	x, had := strings.CutPrefix(*before, mark)
	y, has := strings.CutPrefix(*after, mark)
	return &x, &y, had == has
}

// tidyInEditor has the editor's own formatters do it. Of two things that are
// wanted one is enough: few languages have imports.
func (w *Workspace) tidyInEditor(ctx context.Context, name string, o PatchOptions) (sum string, changed bool, err error) {
	at, err := w.at(name)
	if err != nil {
		return "", false, err
	}
	for _, step := range []struct {
		wanted bool
		do     func(context.Context, string) (editor.Rewritten, error)
	}{{o.Organize, w.opts.Editor.OrganizeImports}, {o.Format, w.opts.Editor.Format}} {
		if !step.wanted {
			continue
		}
		r, failed := step.do(ctx, at)
		switch {
		case bridge.CodeOf(failed) == bridge.CodeUnsupported && sum == "":
			err = failed // unless the other one can
		case bridge.CodeOf(failed) == bridge.CodeUnsupported:
		case failed != nil:
			return sum, changed, failed
		default:
			sum, changed, err = r.SHA256, changed || r.Changed, nil
		}
	}
	return sum, changed, err
}

// rewriteInEditor replaces a text through the editor; not done means that the
// file is one for the disk.
func (w *Workspace) rewriteInEditor(ctx context.Context, name, before, after string) (done bool, sum string, err error) {
	b, a, ok := unmarked(&before, &after)
	if !ok || !editable(*b) || !editable(*a) {
		return false, "", nil
	}
	at, err := w.at(name)
	if err != nil {
		return false, "", err
	}
	conflicts, sums, err := applyEdit(ctx, w.opts.Editor, "format", []editor.FileChange{change(at, "", b, a)})
	switch {
	case err != nil:
		return false, "", err
	case len(conflicts) > 0:
		return false, "", &bridge.Error{Code: bridge.CodeConflict, Message: name + " was changed while it was formatted", Remedy: "try again"}
	}
	if saved := sums[at]; saved != "" && saved != sumOf(*a) {
		return true, saved, nil
	}
	return true, sumOf(after), nil
}

// outline lists what the editor knows a file to declare.
func (w *Workspace) outline(ctx context.Context, name string) ([]lsp.Symbol, error) {
	at, err := w.at(name)
	if err != nil {
		return nil, err
	}
	found, err := w.opts.Editor.Symbols(ctx, at)
	if err != nil {
		return nil, err
	}
	text, unsaved, err := w.live(ctx, name)
	if err != nil {
		return nil, err
	}
	if !unsaved { // positions count by its characters
		b, err := files.ReadAll(w.root, name, maxRewrite)
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	return lsp.Outline(strings.TrimPrefix(text, mark), documentSymbols(found)), nil
}

func documentSymbols(found []editor.Symbol) []lsp.DocumentSymbol {
	span := func(from, to editor.Position) *lsp.Span {
		at := func(p editor.Position) lsp.Position {
			return lsp.Position{Line: uint32(max(0, p.Line)), Character: uint32(max(0, p.Character))}
		}
		return &lsp.Span{Start: at(from), End: at(to)}
	}
	var out []lsp.DocumentSymbol
	for _, s := range found {
		out = append(out, lsp.DocumentSymbol{Name: s.Name, Detail: s.Detail, Kind: s.Kind, Children: documentSymbols(s.Children),
			Range: span(s.Start, s.End), SelectionRange: span(s.SelectionStart, s.SelectionEnd)})
	}
	return out
}
