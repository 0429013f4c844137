package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/language"
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
	if w.opts.Editor != nil {
		return applyParts(ctx, w.opts.Editor, []*part{{ws: w}}, diff, o)
	}
	parsed, err := patch.Parse(diff, 0)
	if err != nil {
		return Patched{}, err
	}
	names := parsed.Names()
	call := patchCall(names, o.Verify, o)
	if d := w.opts.Guard.Before(bridge.WithDetail(ctx, diff), call); d.Verdict != bridge.Allow {
		return Patched{}, denied(ToolPatch, d.Reason)
	}
	// Nothing else may be touched, and a link could be turned round later.
	judged := make(map[string]bool, len(names))
	for _, n := range names {
		judged[n] = true
	}
	check := func(c patch.FileChange) error {
		if c.Target != "" || !judged[c.Path] || c.OldPath != "" && !judged[c.OldPath] {
			return denied(ToolPatch, "it makes a symbolic link, "+c.Path)
		}
		return nil
	}
	r, err := parsed.Apply(ctx, w.root, patch.Options{Verify: o.Verify, DryRun: o.DryRun, Journal: w.opts.Journal, Check: check})
	if err != nil {
		w.opts.Guard.Failed(ctx, call, err.Error())
		return Patched{}, err
	}
	out := Patched{Result: r}
	var texts []*string
	for i := range r.Conflicts {
		texts = append(texts, &r.Conflicts[i].Expected, &r.Conflicts[i].Found)
	}
	if _, err := w.opts.Guard.Reveal(ctx, call, texts...); err != nil {
		return Patched{}, err
	}
	if r.OK && !o.DryRun {
		w.language.Changed()
		w.tidy(ctx, &out, o)
	}
	return out, nil
}

// patchCall is a patch as the guard judges it, with what is done afterwards.
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
	r, _, err := guarded(ctx, w, tool, map[string]any{"path": path}, func() (Rewritten, error) {
		sum, changed, err := w.tidyFile(ctx, path, o)
		if changed {
			w.language.Changed()
		}
		return Rewritten{OK: true, Path: path, Changed: changed, SHA256: sum}, err
	}, nil)
	return r, err
}

// maxRewrite bounds what is formatted: no language server is happy with more.
const maxRewrite = 8 << 20

// rewrite replaces the content of a text file by what change makes of it.
func (w *Workspace) rewrite(ctx context.Context, path string, change func(path, content string) (string, bool, error)) (sum string, changed bool, err error) {
	f, err := w.root.Open(path)
	if err != nil {
		return "", false, &bridge.Error{Code: bridge.CodeNotFound, Message: path + " cannot be read", Cause: err}
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	var before []byte
	if err == nil {
		before, err = io.ReadAll(io.LimitReader(f, maxRewrite+1))
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
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
	hash := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	if !changed || after == string(before) {
		return hash(before), false, nil
	}
	if w.opts.Editor != nil {
		if done, sum, err := w.rewriteInEditor(ctx, path, string(before), after); done || err != nil {
			return sum, done, err
		}
	}
	// The patch machinery replaces a file whole, or not at all if it was
	// changed meanwhile.
	diff, err := wholeDiff(path, string(before), after)
	if err != nil {
		return "", false, err
	}
	r, err := patch.Apply(ctx, w.root, diff, patch.Options{Verify: map[string]string{path: hash(before)}, Journal: w.opts.Journal})
	if err != nil {
		return "", false, err
	}
	if !r.OK {
		return "", false, &bridge.Error{Code: bridge.CodeConflict, Message: path + " was changed while it was formatted", Remedy: "try again"}
	}
	return hash([]byte(after)), true, nil
}

// wholeDiff is a diff that replaces all of a file.
func wholeDiff(path, before, after string) (string, error) {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f || r == utf8.RuneError }) {
		return "", &bridge.Error{Code: bridge.CodeUnsupported, Message: fmt.Sprintf("files with names such as %q are not formatted", path)}
	}
	var b strings.Builder
	side := func(sign, text string) int {
		n := 0
		for line := range strings.Lines(text) {
			b.WriteString(sign + line)
			n++
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
		return n
	}
	removed := side("-", before)
	added := side("+", after)
	span := func(n int) string {
		if n == 0 {
			return "0,0"
		}
		return fmt.Sprintf("1,%d", n)
	}
	return fmt.Sprintf("--- a/%s\t\n+++ b/%s\t\n@@ -%s +%s @@\n%s", path, path, span(removed), span(added), b.String()), nil
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
func (w *Workspace) Languages() []language.ServerStats { return slices.Clip(w.language.Stats()) }
