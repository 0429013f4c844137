package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	slash "path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agentfiles"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// Bounds of what instruction files add to a session. A file is masked as far
// as it is read and then shortened, so that a secret is not cut in two.
const (
	maxInstructionRead  = 256 << 10
	maxInstructionFile  = 64 << 10
	maxInstructions     = 256 << 10
	maxInstructionFiles = 64
)

// Instructions returns the text of the instruction files for a session that
// works in dir: the user's own, those of the workspace's root, and those of
// each directory from there to dir. Of the workspace's files only what the
// policy lets the tool "view" read is in it. Secrets are hidden, and long
// files shortened. Begin records which files were read and which withheld.
func (g *Guard) Instructions(dir string) string {
	g.looked()
	r := &instructionReader{guard: g, left: maxInstructions, seen: map[string]bool{}}
	if p := g.opts.Personal; p != "" {
		r.personal(filepath.Join(p, "copilot-instructions.md"))
		matches, _ := filepath.Glob(filepath.Join(p, "instructions", "*"+agentfiles.ScopedSuffix)) // the pattern is well-formed
		for _, m := range matches {
			r.personal(m)
		}
	}
	for _, place := range g.placesTo(dir) {
		for _, name := range agentfiles.Instructions {
			r.ofWorkspace(slash.Join(place, name), place)
		}
		for _, name := range r.scoped(slash.Join(place, agentfiles.ScopedDir)) {
			r.ofWorkspace(name, place)
		}
	}
	g.mu.Lock()
	g.instructions = r.record
	g.mu.Unlock()
	return strings.Join(r.parts, "\n\n")
}

// placesTo are the directories from the workspace's root to dir, relative to
// the root. A dir outside the workspace counts as the root.
func (g *Guard) placesTo(dir string) []string {
	places := []string{"."}
	res, err := g.opts.Workspace.Resolve(dir)
	if err != nil || !res.Inside || res.Rel == "." {
		return places
	}
	at := ""
	for name := range strings.SplitSeq(res.Rel, "/") {
		at = slash.Join(at, name)
		places = append(places, at)
	}
	return places
}

// instructionReader collects instruction files.
type instructionReader struct {
	guard  *Guard
	parts  []string
	record []map[string]any
	left   int             // bytes that may still be added
	seen   map[string]bool // files, and texts: CLAUDE.md is often a copy of AGENTS.md
}

func (r *instructionReader) withhold(name, reason string) {
	if len(r.record) < 2*maxInstructionFiles {
		r.record = append(r.record, map[string]any{"file": name, "withheld": reason})
	}
}

// scoped lists the instruction files below a directory.
func (r *instructionReader) scoped(dir string) []string {
	var names []string
	looked := 0
	err := fs.WalkDir(r.guard.opts.Workspace.FS().FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if looked++; looked > 16*maxInstructionFiles {
			return fs.SkipAll
		}
		if err != nil {
			return err
		}
		if !d.IsDir() && strings.HasSuffix(name, agentfiles.ScopedSuffix) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.withhold(dir, err.Error())
	}
	return names
}

// ofWorkspace adds a file that the policy lets be read. place is the directory
// that it speaks for.
func (r *instructionReader) ofWorkspace(name, place string) {
	ws := r.guard.opts.Workspace
	if _, err := ws.FS().Lstat(filepath.FromSlash(name)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	res, err := ws.Resolve(name)
	switch {
	case err != nil:
		r.withhold(name, err.Error())
		return
	case !res.Inside:
		r.withhold(name, res.Reason)
		return
	case r.seen[res.Rel]:
		return
	}
	r.seen[res.Rel] = true
	out := r.guard.policy().Evaluate(policy.Action{Tool: "view", Kind: policy.KindRead,
		Args: map[string]any{"path": res.Abs}, Paths: []policy.Path{{Rel: res.Rel, Name: name}}})
	if out.Verdict != policy.Allow {
		r.withhold(name, out.Reason)
		return
	}
	f, err := ws.FS().OpenFile(filepath.FromSlash(res.Rel), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold us up
	if err != nil {
		r.withhold(name, err.Error())
		return
	}
	data, info, err := readRegular(f, maxInstructionRead)
	if err == nil {
		// The file that was read must be the one that was judged, and no link.
		var judged fs.FileInfo
		judged, err = ws.FS().Lstat(filepath.FromSlash(res.Rel))
		if again, err2 := ws.Resolve(name); err == nil && (err2 != nil || again.Rel != res.Rel || !os.SameFile(info, judged)) {
			err = errors.New("it changed while it was read")
		}
	}
	if err != nil {
		r.withhold(name, err.Error())
		return
	}
	r.add(name, place, data, info.Size())
}

// personal adds a file of the user's own. In a workspace that holds the user's
// configuration it is judged like any other.
func (r *instructionReader) personal(name string) {
	if res, err := r.guard.opts.Workspace.Resolve(name); err == nil && res.Inside {
		r.ofWorkspace(res.Rel, ".")
		return
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.withhold(name, err.Error())
		return
	}
	data, info, err := readRegular(f, maxInstructionRead)
	if err != nil {
		r.withhold(name, err.Error())
		return
	}
	r.add(name, ".", data, info.Size())
}

// readRegular reads at most limit bytes of a regular file, and closes it.
func readRegular(f *os.File, limit int64) (data []byte, info fs.FileInfo, err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("it is not a regular file")
	}
	data, err = io.ReadAll(io.LimitReader(f, limit))
	return data, info, err
}

// add masks, bounds and keeps a text.
func (r *instructionReader) add(name, place string, data []byte, size int64) {
	text := strings.TrimSpace(strings.ToValidUTF8(strings.TrimPrefix(string(data), "\ufeff"), "\ufffd"))
	v := r.guard.view(context.Background(), bridge.ToolCall{}) // too short to be worth cancelling
	v.Hide(&text)
	limit := min(maxInstructionFile, r.left)
	switch {
	case v.failed != nil:
		r.withhold(name, v.failed.Error())
		return
	case text == "" || r.seen["\x00"+text]:
		return
	case len(r.parts) == maxInstructionFiles || limit < min(len(text), 1<<10):
		r.withhold(name, fmt.Sprintf("there are more than %d instruction files, or more than %d bytes of them", maxInstructionFiles, maxInstructions))
		return
	}
	r.seen["\x00"+text] = true
	heading := scopeOf(text, place)
	text, cut := redact.Truncate(text, limit)
	if cut = cut || size > maxInstructionRead; cut {
		text += fmt.Sprintf("\n[shortened by copilot-bridge: the file has %d bytes]", size)
	}
	r.left -= len(text)
	r.parts = append(r.parts, "<custom_instruction>\n"+heading+text+"\n</custom_instruction>")
	entry := map[string]any{"file": name, "bytes": len(text)}
	if v.hidden > 0 {
		entry["hidden"] = v.hidden
	}
	if cut {
		entry["cut"] = true
	}
	r.record = append(r.record, entry)
}

// scopeOf says which files an instruction file speaks for, if not for all:
// those that its front matter names, below its directory.
func scopeOf(text, place string) string {
	var globs []string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line = strings.TrimSpace(line); i == 0 && line != "---" || i > 0 && line == "---" {
			break
		}
		if value, ok := strings.CutPrefix(line, "applyTo:"); ok {
			globs = strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t,\"'[]", c) })
		} else if value, ok := strings.CutPrefix(line, "- "); ok && i > 0 && strings.HasPrefix(strings.TrimSpace(lines[i-1]), "applyTo:") {
			globs = append(globs, strings.Trim(value, " \"'"))
		}
	}
	var of []string
	if len(globs) > 0 && !slices.Equal(globs, []string{"**"}) {
		of = append(of, "that match "+strings.Join(globs, " or "))
	}
	if place != "." {
		of = append(of, "below "+place)
	}
	if of == nil {
		return ""
	}
	return "These instructions are for files " + strings.Join(of, ", ") + ".\n\n"
}
