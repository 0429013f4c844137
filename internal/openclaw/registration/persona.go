package registration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// personaFile is the file of OpenClaw's workspace that its agent reads first.
const personaFile = "AGENTS.md"

// personaBegin and personaEnd enclose our text in it.
func personaBegin(t Target) string {
	return "<!-- copilot-bridge " + string(t) + ": begin. Made by `copilot-bridge register " + string(t) + " --persona`; unregister removes it. -->"
}

func personaEnd(t Target) string { return "<!-- copilot-bridge " + string(t) + ": end -->" }

// personaText tells OpenClaw's agent what it has got.
func personaText(t Target) string {
	tools := "- `copilot_code` does one task and reports what was changed.\n" +
		"- `copilot_code_verbose` does the same and tells each step while it happens.\n" +
		"- `copilot_orchestrate` splits a large task into parts and works on several at once."
	if t == Server {
		tools = "- `copilot__copilot_code_task` does one task and reports what was changed.\n" +
			"- `copilot__copilot_orchestrate` splits a large task into parts and works on several at once.\n" +
			"- `copilot__copilot_read_file`, `copilot__copilot_list_files` and `copilot__copilot_create_file` look at or add single files, without a model."
	}
	return `## Coding with Copilot

GitHub Copilot's coding agent is at hand as tools:

` + tools + `

Delegate to it what needs work on code: writing or changing files of a project, mending a bug, running its tests,
finding something out across many files. Answer small talk, questions of fact and anything that needs no project yourself.

Write the task as you would for a colleague who has not seen this conversation: the goal, the directory, the files and
names that matter, what must not change, and how to see that it is done. One task at a time for one directory.
A task may take minutes. Afterwards read the report, look at what was changed, and tell your user in your own words;
say plainly if something was denied or is not finished. A denial comes from the user's policy: do not try to get around it.`
}

// persona is a file that holds, or may hold, a text of ours.
type persona struct {
	path    string
	before  string
	mode    fs.FileMode
	missing bool
}

// readPersona reads the file in OpenClaw's workspace.
func (r *Registrar) readPersona() (*persona, error) {
	dir := r.opts.Places.Workspace
	p := &persona{path: filepath.Join(dir, personaFile), mode: 0o600}
	if target, err := filepath.EvalSymlinks(p.path); err == nil {
		p.path = target
	}
	info, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.missing = true
		return p, nil
	case err == nil && (!info.Mode().IsRegular() || info.Size() > maxConfig):
		err = errors.New("it is too large, or no file")
	}
	var text []byte
	if err == nil {
		p.mode = info.Mode().Perm()
		text, err = durable.ReadFile(p.path)
	}
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: p.path + " cannot be read", Cause: cause(err), Remedy: "mend it, or leave --persona out"}
	}
	p.before = string(text)
	return p, nil
}

// block finds the text of a target: from its first mark to behind its last.
// found is false if there is none.
func (p *persona) block(t Target) (from, to int, found bool, err error) {
	begin := "<!-- copilot-bridge " + string(t) + ": begin"
	from = strings.Index(p.before, begin)
	if from < 0 {
		return 0, 0, false, nil
	}
	n := strings.Index(p.before[from:], personaEnd(t))
	if n < 0 || strings.Contains(p.before[from+len(begin):], begin) {
		return 0, 0, false, &bridge.Error{Code: bridge.CodeConflict, Message: "the marks of copilot-bridge in " + p.path + " do not fit together",
			Remedy: "remove what is left between them, and the marks, by hand"}
	}
	return from, from + n + len(personaEnd(t)), true, nil
}

// with is the file's text with the target's own: in place if it is there, else
// at the end, with a blank line before.
func (p *persona) with(t Target) (string, error) {
	eol := "\n"
	if strings.Contains(p.before, "\r\n") {
		eol = "\r\n"
	}
	text := strings.ReplaceAll(personaBegin(t)+"\n"+personaText(t)+"\n"+personaEnd(t), "\n", eol)
	from, to, found, err := p.block(t)
	switch {
	case err != nil:
		return "", err
	case found:
		return p.before[:from] + text + p.before[to:], nil
	case p.before == "":
		return text + eol, nil
	case strings.HasSuffix(p.before, eol):
		return p.before + eol + text + eol, nil
	}
	return p.before + eol + eol + text, nil // and no end of line, as before
}

// without is the file's text without the target's own: what with has added
// goes, to the byte.
func (p *persona) without(t Target) (string, error) {
	from, to, found, err := p.block(t)
	if err != nil || !found {
		return p.before, err
	}
	head, tail := p.before[:from], p.before[to:]
	eol := "\n"
	if strings.Contains(p.before, "\r\n") {
		eol = "\r\n"
	}
	if rest, ok := strings.CutPrefix(tail, eol); ok {
		return strings.TrimSuffix(head, eol) + rest, nil
	}
	return strings.TrimSuffix(strings.TrimSuffix(head, eol), eol) + tail, nil
}

// write puts a new text into the file; remove says that it should go if the
// text is empty.
func (p *persona) write(text string, remove bool) error {
	if text == p.before {
		return nil
	}
	if remove && text == "" {
		if err := os.Remove(p.path); err != nil {
			return fmt.Errorf("remove %s: %w", p.path, err)
		}
		return nil
	}
	if err := durable.WriteFile(p.path, []byte(text), p.mode); err != nil {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "OpenClaw's " + personaFile + " cannot be written", Cause: err, Remedy: "make it writable, or leave --persona out"}
	}
	return nil
}

// personaFor is the file with the text of a target, and what it will hold.
func (r *Registrar) personaFor(t Target) (p *persona, text string, err error) {
	if info, err := os.Stat(r.opts.Places.Workspace); err != nil || !info.IsDir() {
		return nil, "", &bridge.Error{Code: bridge.CodeNotFound, Message: "OpenClaw's workspace " + r.opts.Places.Workspace + " is not there yet",
			Remedy: "let OpenClaw make it first (`openclaw setup`), because it does not fill one that somebody else has begun; then register again with --persona"}
	}
	if p, err = r.readPersona(); err != nil {
		return nil, "", err
	}
	text, err = p.with(t)
	return p, text, err
}

// addPersona tells OpenClaw's agent about the tools. keep puts the entry on
// record.
func (r *Registrar) addPersona(q Request, e *entry, result *Result, keep func() error) error {
	p, text, err := r.personaFor(q.Target)
	if err != nil {
		return err
	}
	if e.Persona == nil || e.Persona.File != p.path {
		e.Persona = &personaEntry{File: p.path, Created: p.missing}
	}
	if text == p.before {
		return nil
	}
	result.Changes = append(result.Changes, Change{File: p.path, What: "the persona", Lines: r.lines(p.before, text)})
	if q.DryRun {
		return nil
	}
	if err := keep(); err != nil {
		return err
	}
	return p.write(text, false)
}

// removePersona takes it out again.
func (r *Registrar) removePersona(q Request, e *entry, result *Result) error {
	p, err := r.readPersona()
	if err != nil {
		return err
	}
	text, err := p.without(q.Target)
	if err != nil || text == p.before {
		return err
	}
	result.Changes = append(result.Changes, Change{File: p.path, What: "the persona", Lines: r.lines(p.before, text)})
	if q.DryRun {
		return nil
	}
	return p.write(text, e != nil && e.Persona != nil && e.Persona.Created)
}
