package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
)

// part is what a diff does in one folder.
type part struct {
	ws    *Workspace
	under string          // the folder's name in the diff; "" if there is but one
	names map[string]bool // the files that the guard was asked about, relative to it
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
	if c.Target != "" || !p.names[c.Path] || c.OldPath != "" && !p.names[c.OldPath] {
		return denied(ToolPatch)(bridge.Decision{Reason: "it makes a symbolic link, " + c.Path})
	}
	return nil
}

// toDisk applies the diff to the files on disk.
func (p *part) toDisk(ctx context.Context, d *patch.Diff, o patch.Options) (err error) {
	o.Under, o.Journal, o.Tell, o.Check = p.under, p.ws.opts.Journal, p.ws.opts.Tell, p.check
	p.result, err = d.Apply(ctx, p.ws.root, o)
	return err
}

func sumOf(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// edit turns the preview into changes for the editor. Without any, why says what
// an editor cannot do.
func (p *part) edit() (changes []editor.FileChange, why string) {
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
		from, to := p.ws.abs(m.Path), ""
		switch m.Status {
		case patch.StatusRenamed:
			from, to = p.ws.abs(m.OldPath), from
		case patch.StatusCopied:
			before = nil
		default:
		}
		changes = append(changes, change(from, to, before, after))
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
// The files must still be as the preview saw them.
func (p *part) byDisk(ctx context.Context, diff, why string, given map[string]string) error {
	if name := p.dirty(); name != "" {
		p.result.OK = false
		p.result.Conflicts = append(p.result.Conflicts, patch.Conflict{File: name,
			Reason: "it is not saved in the editor, which cannot apply this diff itself because " + why + "; save the file first"})
		return nil
	}
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
	maps.Copy(verify, given)
	parsed, err := patch.Parse(diff, 0)
	if err != nil {
		return err
	}
	return p.toDisk(ctx, parsed, patch.Options{Verify: verify})
}

// byEditor applies the parts as one edit.
func byEditor(ctx context.Context, ed Editor, parts []*part, changes []editor.FileChange) error {
	conflicts, sums, err := applyEdit(ctx, ed, "patch", changes)
	if err != nil {
		return err
	}
	for _, p := range parts {
		for i := range p.result.Files {
			f := &p.result.Files[i]
			for _, name := range []string{f.Path, f.OldPath} {
				if why, ok := conflicts[p.ws.abs(name)]; ok && name != "" {
					p.result.Conflicts = append(p.result.Conflicts, patch.Conflict{File: name, Reason: cmp.Or(why, "it was changed meanwhile")})
				}
			}
			// Saving may have run a formatter of the user's.
			saved, ok := sums[p.ws.abs(f.Path)]
			if _, bare, _ := unmarked(p.made[i].Before, p.made[i].After); ok && bare != nil && saved != sumOf(*bare) {
				f.SHA256 = saved
			}
		}
		p.result.OK, p.result.DryRun = len(conflicts) == 0, false
	}
	if len(conflicts) > 0 && !slices.ContainsFunc(parts, func(p *part) bool { return len(p.result.Conflicts) > 0 }) {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "the editor refused the edit", Remedy: "look at the files in the editor, then try again"}
	}
	return nil
}

// applyParts applies a diff to the folders that it speaks of: to the disk or,
// if there is an editor, to what that shows: through the editor, so that it is
// one step to undo, where an editor can do it.
func applyParts(ctx context.Context, ed Editor, parts []*part, diff string, o PatchOptions) (Patched, error) {
	parsed, err := patch.Parse(diff, 0)
	if err != nil {
		return Patched{}, err
	}
	if err := allowParts(ctx, parts, parsed.Names(), diff, o); err != nil {
		return Patched{}, err
	}
	if ed == nil {
		err = parts[0].toDisk(ctx, parsed, patch.Options{Verify: o.Verify, DryRun: o.DryRun})
	} else {
		err = runParts(ctx, ed, parts, diff, o)
	}
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
func allowParts(ctx context.Context, parts []*part, names []string, diff string, o PatchOptions) error {
	for _, p := range parts {
		own := below(names, p.under)
		p.names = make(map[string]bool, len(own))
		for _, n := range own {
			p.names[n] = true
		}
		p.call = patchCall(own, verifyBelow(o.Verify, p.under), o)
		if d := p.ws.opts.Guard.Before(bridge.WithDetail(ctx, diff), p.call); d.Verdict != bridge.Allow {
			return denied(ToolPatch)(d)
		}
	}
	return nil
}

func runParts(ctx context.Context, ed Editor, parts []*part, diff string, o PatchOptions) error {
	all := []editor.FileChange{}
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
	return parts[0].byDisk(ctx, diff, cannot, verifyBelow(o.Verify, parts[0].under))
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
