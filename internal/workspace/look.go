package workspace

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/language"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

// Content is a file as it may be seen.
type Content struct {
	files.Content
	// Redacted is how many secrets were hidden: Content is then not what the
	// file holds, though SHA256 is the file's.
	Redacted int `json:"redacted,omitempty"`
}

// Read returns a file or some of its lines.
func (w *Workspace) Read(ctx context.Context, path string, o files.ReadOptions) (Content, error) {
	c, hidden, err := guarded(ctx, w, ToolRead, map[string]any{"path": path},
		func() (files.Content, error) {
			if text, unsaved, err := w.live(ctx, path); err != nil {
				return files.Content{}, err
			} else if unsaved {
				return files.ReadText(ctx, path, text, o)
			}
			return files.Read(ctx, w.root, path, o)
		},
		func(c *files.Content) []*string { return []*string{&c.Content} })
	return Content{c, hidden}, err
}

// List returns the files of the workspace that may be seen.
func (w *Workspace) List(ctx context.Context, o files.ListOptions) (files.Listing, error) {
	o.Keep = w.opts.Guard.MayRead
	l, _, err := guarded(ctx, w, ToolList, map[string]any{"glob": o.Glob, "exclude": o.Exclude},
		func() (files.Listing, error) { return files.List(ctx, w.root, o) }, nil)
	return l, err
}

// Search finds text in the files that may be seen.
func (w *Workspace) Search(ctx context.Context, o search.Options) (search.Result, error) {
	o.Dir, o.RG, o.Keep = w.dir, w.opts.Ripgrep, w.opts.Guard.MayRead
	r, _, err := guarded(ctx, w, ToolSearch, map[string]any{"query": o.Query, "glob": o.Glob, "exclude": o.Exclude},
		func() (search.Result, error) {
			var err error
			if o.Live, err = w.unsaved(ctx); err != nil {
				return search.Result{}, err
			}
			return search.Search(ctx, o)
		},
		func(r *search.Result) []*string {
			texts := make([]*string, 0, len(r.Hits))
			for i := range r.Hits {
				h := &r.Hits[i]
				texts = append(texts, &h.Snippet)
				for k := range h.Before {
					texts = append(texts, &h.Before[k])
				}
				for k := range h.After {
					texts = append(texts, &h.After[k])
				}
			}
			return texts
		})
	return r, err
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
