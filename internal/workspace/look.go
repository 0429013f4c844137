package workspace

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

// temporaries are what the workspace's own writing has in the tree for a
// moment. They are hidden files, so only a search of those would find them.
func temporaries(scope *files.Scope) {
	if scope.Hidden {
		scope.Exclude = append(slices.Clip(scope.Exclude), patch.StagePattern)
	}
}

// Read returns a file or some of its lines.
func (w *Workspace) Read(ctx context.Context, path string, o files.ReadOptions) (files.Content, error) {
	call := bridge.ToolCall{Name: ToolRead, Args: map[string]any{"path": path}}
	if d := w.opts.Guard.Before(ctx, call); d.Verdict != bridge.Allow {
		return files.Content{}, denied(ToolRead)(d)
	}
	c, around, err := w.readPart(ctx, path, o)
	switch {
	case err != nil:
		w.opts.Guard.Failed(ctx, call, err.Error())
		return files.Content{}, err
	case around == nil:
		c.Redacted, err = w.opts.Guard.Reveal(ctx, call, &c.Content)
	default:
		c.Content = around.text
		c.Redacted, err = w.opts.Guard.RevealPart(ctx, call, &c.Content, around.cut)
	}
	return c, err
}

// List returns the files of the workspace that may be seen.
func (w *Workspace) List(ctx context.Context, o files.ListOptions) (files.Listing, error) {
	o.Keep = w.opts.Guard.MayRead
	args := map[string]any{"glob": o.Glob, "exclude": o.Exclude}
	temporaries(&o.Scope)
	return guarded(ctx, w, ToolList, args, func() (files.Listing, error) { return files.List(ctx, w.root, o) })
}

// ListBelow returns those in a directory and all below, "" for all.
func (w *Workspace) ListBelow(ctx context.Context, directory string) (files.Listing, error) {
	o := files.ListOptions{}
	if dir := filepath.ToSlash(filepath.Clean(directory)); directory != "" && dir != "." {
		if !filepath.IsLocal(filepath.FromSlash(dir)) {
			return files.Listing{}, &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("%.200q is outside the workspace", directory), Remedy: "name a directory relative to the workspace"}
		}
		if info, err := w.root.Stat(dir); err != nil || !info.IsDir() {
			return files.Listing{}, &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("there is no directory %.200q", directory), Remedy: "list the workspace to see what there is"}
		}
		o.Glob = []string{"/" + literal.Replace(dir) + "/**"}
	}
	return w.List(ctx, o)
}

// literal quotes the special characters of a glob.
var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}", `\}`)

// maxSearches run at a time; each may have the memory of a ripgrep. Others wait,
// searchWait at most.
const (
	maxSearches = 4
	searchWait  = 2 * time.Minute
)

// beginSearch waits for its turn. The caller must call end.
func (w *Workspace) beginSearch(ctx context.Context) (end func(), err error) {
	late := time.NewTimer(searchWait)
	defer late.Stop()
	select {
	case w.searches <- struct{}{}:
		return func() { <-w.searches }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("%d searches are under way", maxSearches), Remedy: "try again later"}
	}
}

// Search finds text in the files that may be seen, and gives take the hits as
// they are found, with secrets hidden; the result has none. The hits must not
// be passed on until it has returned without an error.
func (w *Workspace) Search(ctx context.Context, o search.Options, take search.Taker) (search.Result, error) {
	call := bridge.ToolCall{Name: ToolSearch, Args: map[string]any{"query": o.Query, "glob": o.Glob, "exclude": o.Exclude}}
	if d := w.opts.Guard.Before(ctx, call); d.Verdict != bridge.Allow {
		return search.Result{}, denied(ToolSearch)(d)
	}
	view := w.opts.Guard.View(ctx, call)
	r, err := w.find(ctx, o, view, take)
	if err != nil {
		w.opts.Guard.Failed(ctx, call, err.Error())
		return search.Result{}, err
	}
	if err := view.End(ctx); err != nil {
		return search.Result{}, err
	}
	return r, nil
}

func (w *Workspace) find(ctx context.Context, o search.Options, view bridge.View, take search.Taker) (r search.Result, err error) {
	temporaries(&o.Scope)
	o.Dir, o.RG, o.Keep = w.dir, w.opts.Ripgrep, view.MayRead
	if o.Live, err = w.unsaved(ctx); err != nil {
		return r, err
	}
	end, err := w.beginSearch(ctx)
	if err != nil {
		return r, err
	}
	defer end()
	return search.Find(ctx, o, func(file string, hits []search.Hit) bool {
		key := w.keyFile(view, file, o.Live)
		hide := func(line int, text *string) {
			key.hide(line, text)
			view.Hide(text)
		}
		for i := range hits {
			h := &hits[i]
			hide(h.Line, &h.Snippet)
			for k := range h.Before {
				hide(h.Line-len(h.Before)+k, &h.Before[k])
			}
			for k := range h.After {
				hide(h.Line+1+k, &h.After[k])
			}
		}
		return take(file, hits)
	})
}

// Symbols lists what a file declares.
func (w *Workspace) Symbols(ctx context.Context, path string) ([]lsp.Symbol, error) {
	return guarded(ctx, w, ToolSymbols, map[string]any{"path": path}, func() ([]lsp.Symbol, error) {
		if w.opts.Editor != nil {
			s, err := w.outline(ctx, path)
			if bridge.CodeOf(err) != bridge.CodeUnsupported {
				return s, err
			}
		}
		return w.language.Symbols(ctx, path)
	})
}
