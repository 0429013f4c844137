package workspace

import (
	"context"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
)

// PatchOptions say how a diff is applied.
type PatchOptions struct {
	Verify map[string]string // expected SHA-256 of files before, by path
	DryRun bool
	// Format and Organize tidy the files that were changed afterwards, as far
	// as there is a language server for them.
	Format, Organize bool
}

// Patched is what became of a diff.
type Patched struct {
	patch.Result
	// Tidied are files that were formatted afterwards; Untidied says why
	// others were not.
	Tidied   []string          `json:"tidied,omitempty"`
	Untidied map[string]string `json:"untidied,omitempty"`
}

// ApplyPatch applies a unified diff, all of it or none. Each file that it
// touches must be allowed.
func (w *Workspace) ApplyPatch(ctx context.Context, diff string, o PatchOptions) (Patched, error) {
	return applyParts(ctx, w.opts.Editor, []*part{{ws: w}}, diff, o)
}

// patchCall is a patch as the guard judges it, with the steps that follow.
// The files in verify are read: a conflict tells what they are.
func patchCall(names []string, verify map[string]string, o PatchOptions) bridge.ToolCall {
	args := map[string]any{"paths": list(names), "dryRun": o.DryRun}
	if len(verify) > 0 {
		args["verify"] = list(slices.Sorted(maps.Keys(verify)))
	}
	if o.Format {
		args["format"] = true
	}
	if o.Organize {
		args["organizeImports"] = true
	}
	return bridge.ToolCall{Name: ToolPatch, Args: args}
}

// tidy formats what a patch has changed. A file that cannot be formatted is
// no reason to fail: the patch is applied.
func (w *Workspace) tidy(ctx context.Context, out *Patched, o PatchOptions) {
	if !o.Format && !o.Organize {
		return
	}
	for i, f := range out.Files {
		if f.Status == patch.StatusDeleted || f.Binary {
			continue
		}
		sum, changed, err := w.tidyFile(ctx, f.Path, o)
		switch {
		case err != nil:
			if out.Untidied == nil {
				out.Untidied = map[string]string{}
			}
			out.Untidied[f.Path] = err.Error()
		case changed:
			out.Tidied = append(out.Tidied, f.Path)
			out.Files[i].SHA256 = sum
		}
	}
	w.language.Changed()
}

// tidyFile tidies one file: as the editor does, if there is one that can, or
// by the language's own tools.
func (w *Workspace) tidyFile(ctx context.Context, path string, o PatchOptions) (sum string, changed bool, err error) {
	if w.opts.Editor != nil {
		sum, changed, err = w.tidyInEditor(ctx, path, o)
		if bridge.CodeOf(err) != bridge.CodeUnsupported {
			return sum, changed, err
		}
	}
	return w.rewrite(ctx, path, func(path, content string) (string, bool, error) {
		switch {
		case o.Format && o.Organize:
			return w.language.Tidy(ctx, path, content)
		case o.Organize:
			return w.language.Organize(ctx, path, content)
		}
		return w.language.Format(ctx, path, content)
	})
}

// Rewritten is what formatting made of a file.
type Rewritten struct {
	OK      bool   `json:"ok"` // always: what fails is an error
	Path    string `json:"path"`
	Changed bool   `json:"changed"`
	SHA256  string `json:"sha256"` // of the file now
}

// Format lays out a file as its language's tools do.
func (w *Workspace) Format(ctx context.Context, path string) (Rewritten, error) {
	return w.rewritten(ctx, ToolFormat, path, PatchOptions{Format: true})
}

// Organize sorts and completes the imports of a file.
func (w *Workspace) Organize(ctx context.Context, path string) (Rewritten, error) {
	return w.rewritten(ctx, ToolOrganize, path, PatchOptions{Organize: true})
}

func (w *Workspace) rewritten(ctx context.Context, tool, path string, o PatchOptions) (Rewritten, error) {
	return guarded(ctx, w, tool, map[string]any{"path": path}, func() (Rewritten, error) {
		sum, changed, err := w.tidyFile(ctx, path, o)
		if changed {
			w.language.Changed()
		}
		return Rewritten{OK: true, Path: path, Changed: changed, SHA256: sum}, err
	})
}

// maxRewrite is the largest file that is formatted.
const maxRewrite = 8 << 20

// rewrite replaces the content of a text file by what change makes of it.
func (w *Workspace) rewrite(ctx context.Context, path string, change func(path, content string) (string, bool, error)) (sum string, changed bool, err error) {
	before, err := files.ReadAll(w.root, path, maxRewrite+1)
	switch {
	case err != nil:
		return "", false, err
	case len(before) > maxRewrite || !utf8.Valid(before):
		return "", false, &bridge.Error{Code: bridge.CodeUnsupported, Message: path + " is too large, or not UTF-8 text"}
	}
	if text, ok, err := w.live(ctx, path); err != nil {
		return "", false, err
	} else if ok {
		before = []byte(text)
	}
	after, changed, err := change(path, string(before))
	if err != nil {
		return "", false, err
	}
	if !changed || after == string(before) {
		return sumOf(string(before)), false, nil
	}
	if w.opts.Editor != nil {
		if done, sum, err := w.rewriteInEditor(ctx, path, string(before), after); done || err != nil {
			return sum, done, err
		}
	}
	r, err := patch.Write(ctx, w.root, path, after, patch.Options{Verify: map[string]string{path: sumOf(string(before))}, Journal: w.opts.Journal, Tell: w.opts.Tell})
	if err != nil {
		return "", false, err
	}
	if !r.OK {
		return "", false, &bridge.Error{Code: bridge.CodeConflict, Message: path + " was changed while it was formatted", Remedy: "try again"}
	}
	return sumOf(after), true, nil
}

// list is names as arguments have them.
func list(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}

// Languages tells of the servers that were needed so far.
func (w *Workspace) Languages() []lsp.ServerStats { return slices.Clip(w.language.Stats()) }
