package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
)

// part is what a diff does in one folder.
type part struct {
	ws    *Workspace
	under string   // the folder's name in the diff; "" if there is but one
	names []string // the files, relative to it
	call  bridge.ToolCall

	result patch.Result
	made   []patch.Made
	live   map[string]string
}

// preview works out what a diff would do, on what the editor shows.
func (p *part) preview(ctx context.Context, diff string, o patch.Options) (err error) {
	if p.live, err = p.ws.unsaved(ctx); err != nil {
		return err
	}
	o.Live, o.Under = p.live, p.under
	p.result, p.made, err = patch.Preview(ctx, p.ws.root, diff, o)
	return err
}

// check lets nothing be touched that the guard was not asked about, nor links
// be made: one could be turned round later.
func (p *part) check(c patch.FileChange) error {
	if c.Target != "" || !slices.Contains(p.names, c.Path) || c.OldPath != "" && !slices.Contains(p.names, c.OldPath) {
		return denied(ToolPatch, "it makes a symbolic link, "+c.Path)
	}
	return nil
}

func sumOf(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// edit turns what was worked out into changes for the editor. Without any, why
// says what an editor cannot do; byPath leads from a change back to its file.
func (p *part) edit() (changes []Change, why string) {
	named := map[string]int{}
	for i := range p.made {
		named[p.made[i].Path]++
		if old := p.made[i].OldPath; old != "" && p.made[i].Status == patch.StatusRenamed {
			named[old]++
		}
	}
	for i := range p.made {
		m := &p.made[i]
		before, after, ok := unmarked(m.Before, m.After)
		switch {
		case m.Binary:
			return nil, m.Path + " is binary"
		case m.Target != "":
			return nil, m.Path + " is a link"
		case m.Exec || m.Status == patch.StatusMode:
			return nil, "the permissions of " + m.Path + " change"
		case !ok, before != nil && !editable(*before), after != nil && !editable(*after):
			return nil, m.Path + " is not UTF-8 text with one kind of line ending, or gains or loses a byte order mark"
		case named[m.Path] > 1 || named[m.OldPath] > 1:
			return nil, m.Path + " changes places with another file"
		}
		c := Change{Path: p.ws.abs(m.Path), Before: before, After: after}
		switch m.Status {
		case patch.StatusRenamed:
			c.Path, c.To = p.ws.abs(m.OldPath), p.ws.abs(m.Path)
		case patch.StatusCopied:
			c.Before = nil
		default:
		}
		changes = append(changes, c)
	}
	return changes, ""
}

func (w *Workspace) abs(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

// dirty names a file of the diff that the editor has not saved, or is empty.
func (p *part) dirty() string {
	for i := range p.made {
		for _, name := range []string{p.made[i].Path, p.made[i].OldPath} {
			if _, ok := p.live[name]; ok {
				return name
			}
		}
	}
	return ""
}

// byDisk applies what an editor cannot, to files that it shows as they are.
// What was worked out must still hold.
func (p *part) byDisk(ctx context.Context, diff, why string, o patch.Options) error {
	if name := p.dirty(); name != "" {
		p.result.OK = false
		p.result.Conflicts = append(p.result.Conflicts, patch.Conflict{File: name,
			Reason: "it is not saved in the editor, which cannot apply this diff itself because " + why + "; save the file first"})
		return nil
	}
	o.Under, o.Journal = p.under, p.ws.opts.Journal
	verify := map[string]string{}
	for i := range p.made {
		m := &p.made[i]
		name := m.Path
		if m.OldPath != "" {
			name = m.OldPath
		}
		if m.Before != nil {
			verify[name] = sumOf(*m.Before)
		}
	}
	for name, sum := range o.Verify {
		verify[name] = sum
	}
	o.Verify = verify
	r, err := patch.Apply(ctx, p.ws.root, diff, o)
	p.result = r
	return err
}

// byEditor applies the parts as one edit.
func byEditor(ctx context.Context, ed Editor, parts []*part, changes []Change) error {
	label := "Copilot Bridge: patch"
	edited, err := ed.Edit(ctx, label, changes)
	if err != nil {
		return err
	}
	for _, p := range parts {
		for i := range p.result.Files {
			f := &p.result.Files[i]
			for _, name := range []string{f.Path, f.OldPath} {
				if why, ok := edited.Conflicts[p.ws.abs(name)]; ok && name != "" {
					p.result.Conflicts = append(p.result.Conflicts, patch.Conflict{File: name, Reason: cmp.Or(why, "it was changed meanwhile")})
				}
			}
			// Saving may have run a formatter of the user's.
			saved, ok := edited.Sums[p.ws.abs(f.Path)]
			if _, bare, _ := unmarked(p.made[i].Before, p.made[i].After); ok && bare != nil && saved != sumOf(*bare) {
				f.SHA256 = saved
			}
		}
		p.result.OK, p.result.DryRun = len(edited.Conflicts) == 0, false
	}
	if len(edited.Conflicts) > 0 && !slices.ContainsFunc(parts, func(p *part) bool { return len(p.result.Conflicts) > 0 }) {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "the editor refused the edit", Remedy: "look at the files in the editor, then try again"}
	}
	return nil
}

// applyParts applies a diff to what an editor shows: through the editor, so
// that it is one step to undo, or, where an editor cannot, to the disk. parts
// are the folders that the diff speaks of.
func applyParts(ctx context.Context, ed Editor, parts []*part, diff string, o PatchOptions) (Patched, error) {
	if err := allowParts(ctx, parts, diff, o); err != nil {
		return Patched{}, err
	}
	err := runParts(ctx, ed, parts, diff, o)
	out := Patched{Result: patch.Result{OK: true, DryRun: o.DryRun, Files: []patch.FileChange{}, Conflicts: []patch.Conflict{}}}
	for _, p := range parts {
		if err != nil {
			p.ws.opts.Guard.Failed(ctx, p.call, err.Error())
			continue
		}
		var texts []*string
		for i := range p.result.Conflicts {
			texts = append(texts, &p.result.Conflicts[i].Expected, &p.result.Conflicts[i].Found)
		}
		if _, err = p.ws.opts.Guard.Reveal(ctx, p.call, texts...); err != nil {
			continue
		}
		own := Patched{Result: p.result}
		if out.OK = out.OK && own.OK; own.OK && !o.DryRun {
			p.ws.language.Changed()
			p.ws.tidy(ctx, &own, o)
		}
		out.add(p.under, own)
	}
	if err != nil {
		return Patched{}, err
	}
	return out, nil
}

// allowParts asks each folder's guard about its files.
func allowParts(ctx context.Context, parts []*part, diff string, o PatchOptions) error {
	parsed, err := patch.Parse(diff, 0)
	if err != nil {
		return err
	}
	names := parsed.Names()
	for _, p := range parts {
		p.names = below(names, p.under)
		p.call = patchCall(p.names, verifyBelow(o.Verify, p.under), o)
		if d := p.ws.opts.Guard.Before(bridge.WithDetail(ctx, diff), p.call); d.Verdict != bridge.Allow {
			return denied(ToolPatch, d.Reason)
		}
	}
	return nil
}

func runParts(ctx context.Context, ed Editor, parts []*part, diff string, o PatchOptions) error {
	var all []Change
	cannot, fits := "", true
	for _, p := range parts {
		if err := p.preview(ctx, diff, patch.Options{Verify: verifyBelow(o.Verify, p.under), Check: p.check}); err != nil {
			return err
		}
		fits = fits && p.result.OK
		changes, why := p.edit()
		all, cannot = append(all, changes...), cmp.Or(cannot, why)
	}
	switch {
	case !fits || o.DryRun:
		for _, p := range parts {
			p.result.DryRun = o.DryRun
		}
		return nil
	case cannot == "":
		return byEditor(ctx, ed, parts, all)
	case len(parts) > 1:
		return &bridge.Error{Code: bridge.CodeUnsupported, Message: "the diff is for several folders, and the editor cannot apply it because " + cannot,
			Remedy: "Split it into one for each folder."}
	}
	return parts[0].byDisk(ctx, diff, cannot, patch.Options{Verify: verifyBelow(o.Verify, parts[0].under), Check: parts[0].check})
}

// add puts the outcome in a folder to that of the others.
func (r *Patched) add(folder string, own Patched) {
	for _, f := range own.Files {
		f.Path, f.OldPath = join(folder, f.Path), join(folder, f.OldPath)
		r.Files = append(r.Files, f)
	}
	for _, c := range own.Conflicts {
		c.File = join(folder, c.File)
		r.Conflicts = append(r.Conflicts, c)
	}
	for _, name := range own.Tidied {
		r.Tidied = append(r.Tidied, join(folder, name))
	}
	for name, why := range own.Untidied {
		if r.Untidied == nil {
			r.Untidied = map[string]string{}
		}
		r.Untidied[join(folder, name)] = why
	}
}

func join(folder, name string) string {
	if folder == "" || name == "" {
		return name
	}
	return folder + "/" + name
}

// below are the names in a folder, relative to it.
func below(names []string, folder string) []string {
	if folder == "" {
		return names
	}
	var out []string
	for _, n := range names {
		if rest, ok := strings.CutPrefix(n, folder+"/"); ok {
			out = append(out, rest)
		}
	}
	return out
}

func verifyBelow(verify map[string]string, folder string) map[string]string {
	if folder == "" {
		return verify
	}
	out := map[string]string{}
	for name, sum := range verify {
		if rest, ok := strings.CutPrefix(name, folder+"/"); ok {
			out[rest] = sum
		}
	}
	return out
}
