package workspace

import (
	"context"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/language"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

// Content is a file as it may be seen.
type Content struct {
	files.Content
	// Redacted is how many secrets were hidden: Content is then not what the
	// file holds, though SHA256 is the file's.
	Redacted int `json:"redacted,omitempty"`
}

// temporaries are what the workspace's own writing leaves in the tree for a
// moment. They are hidden files, so nobody meets them who has not asked for
// those.
func temporaries(scope *files.Scope) {
	if scope.Hidden {
		scope.Exclude = append(slices.Clip(scope.Exclude), patch.StagePattern, temporaryPrefix+"*"+temporarySuffix)
	}
}

// Read returns a file or some of its lines.
func (w *Workspace) Read(ctx context.Context, path string, o files.ReadOptions) (Content, error) {
	call := bridge.ToolCall{Name: ToolRead, Args: map[string]any{"path": path}}
	if d := w.opts.Guard.Before(ctx, call); d.Verdict != bridge.Allow {
		return Content{}, denied(ToolRead, d.Reason)
	}
	c, around, err := w.readPart(ctx, path, o)
	if err != nil {
		w.opts.Guard.Failed(ctx, call, err.Error())
		return Content{}, err
	}
	if around == nil {
		hidden, err := w.opts.Guard.Reveal(ctx, call, &c.Content)
		return Content{c, hidden}, err
	}
	c.Content = around.text
	hidden, err := w.opts.Guard.RevealPart(ctx, call, &c.Content, around.cut)
	return Content{c, hidden}, err
}

// List returns the files of the workspace that may be seen.
func (w *Workspace) List(ctx context.Context, o files.ListOptions) (files.Listing, error) {
	o.Keep = w.opts.Guard.MayRead
	args := map[string]any{"glob": o.Glob, "exclude": o.Exclude}
	temporaries(&o.Scope)
	l, _, err := guarded(ctx, w, ToolList, args,
		func() (files.Listing, error) { return files.List(ctx, w.root, o) }, nil)
	return l, err
}

// Search finds text in the files that may be seen, and gives take the hits as
// they are found, with secrets hidden; the result has none. Until it has
// returned without an error nobody may be told of them.
func (w *Workspace) Search(ctx context.Context, o search.Options, take search.Taker) (search.Result, error) {
	call := bridge.ToolCall{Name: ToolSearch, Args: map[string]any{"query": o.Query, "glob": o.Glob, "exclude": o.Exclude}}
	if d := w.opts.Guard.Before(ctx, call); d.Verdict != bridge.Allow {
		return search.Result{}, denied(ToolSearch, d.Reason)
	}
	temporaries(&o.Scope)
	view := w.opts.Guard.View(ctx, call)
	defer view.Close()
	o.Dir, o.RG, o.Keep = w.dir, w.opts.Ripgrep, view.MayRead
	if o.RG == "" {
		o.Keep = w.opts.Guard.MayRead // the scanner asks from several goroutines
	}
	var err error
	if o.Live, err = w.unsaved(ctx); err != nil {
		w.opts.Guard.Failed(ctx, call, err.Error())
		return search.Result{}, err
	}
	r, err := search.Find(ctx, o, func(file string, hits []search.Hit) bool {
		key := w.keyFile(view, file, o.Live)
		for i := range hits {
			h := &hits[i]
			key.hide(h.Line, &h.Snippet)
			view.Hide(&h.Snippet)
			for k := range h.Before {
				key.hide(h.Line-len(h.Before)+k, &h.Before[k])
				view.Hide(&h.Before[k])
			}
			for k := range h.After {
				key.hide(h.Line+1+k, &h.After[k])
				view.Hide(&h.After[k])
			}
		}
		return take(file, hits)
	})
	if err != nil {
		w.opts.Guard.Failed(ctx, call, err.Error())
		return search.Result{}, err
	}
	if err := view.End(ctx); err != nil {
		return search.Result{}, err
	}
	return r, nil
}

// Symbols lists what a file declares.
func (w *Workspace) Symbols(ctx context.Context, path string) ([]language.Symbol, error) {
	s, _, err := guarded(ctx, w, ToolSymbols, map[string]any{"path": path},
		func() ([]language.Symbol, error) {
			if w.opts.Editor != nil {
				s, err := w.outline(ctx, path)
				if bridge.CodeOf(err) != bridge.CodeUnsupported {
					return s, err
				}
			}
			return w.language.Symbols(ctx, path)
		}, nil)
	return s, err
}
