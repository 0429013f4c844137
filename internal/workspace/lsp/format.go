package lsp

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// Format returns content, meant for the file at path, as it should be laid
// out. The file need not exist. It is formatted by the language server, or by
// a formatter command if there is no server or it cannot format.
func (m *Manager) Format(ctx context.Context, path, content string) (formatted string, changed bool, err error) {
	return m.rewrite(ctx, path, content, work{verb: "format", format: true})
}

// Organize returns content with its imports sorted, completed and without
// those not used, as far as the language's server does that.
func (m *Manager) Organize(ctx context.Context, path, content string) (organized string, changed bool, err error) {
	return m.rewrite(ctx, path, content, work{verb: "organise the imports of", organize: true})
}

// Tidy is Organize and then Format, with a single look of the server at the
// text. A server that cannot organise still formats.
func (m *Manager) Tidy(ctx context.Context, path, content string) (tidied string, changed bool, err error) {
	return m.rewrite(ctx, path, content, work{verb: "tidy", organize: true, format: true})
}

// work is what to do to a text. verb is for messages.
type work struct {
	verb             string
	organize, format bool
}

// rewrite checks a text, does the work, and says whether that changed it.
func (m *Manager) rewrite(ctx context.Context, path, before string, w work) (string, bool, error) {
	t, err := m.target(path)
	if err != nil {
		return "", false, err
	}
	body, restore, err := content(path, before)
	if err != nil {
		return "", false, err
	}
	after, err := m.work(ctx, t, body, w)
	if err != nil {
		return "", false, err
	}
	after = restore(keepLineEnds(body, after))
	return after, after != before, nil
}

// errNoFormat means that the server is there but does not format.
var errNoFormat = errors.New("the server cannot format")

func (m *Manager) work(ctx context.Context, t target, body string, w work) (string, error) {
	byCommand := false
	if w.format && t.server.FormatterFirst {
		_, byCommand = m.formatter(t)
	}
	if byCommand && !w.organize {
		return m.orFormatter(ctx, t, body, errNoFormat)
	}
	after := body
	err := m.do(ctx, t, w.verb+" "+t.path, func(ctx context.Context, c *client) error {
		formats := w.format && c.formats() && !byCommand
		if !w.organize && !formats {
			return errNoFormat
		}
		d, err := c.open(ctx, t.path, t.id, body)
		if err != nil {
			return err
		}
		defer d.close()
		if w.organize {
			if err := d.organize(ctx, t); err != nil && (!w.format || bridge.CodeOf(err) != bridge.CodeUnsupported) {
				return err
			}
			after = d.s
		}
		switch {
		case !w.format:
			return nil
		case !formats:
			return errNoFormat
		}
		formatted, err := d.format(ctx, t)
		if err == nil {
			after = formatted
		}
		return err
	})
	if !w.format {
		return after, err
	}
	return m.orFormatter(ctx, t, after, err)
}

// orFormatter uses the formatter command if err is that no server can do it.
// Otherwise, and if there is no such command, err stays.
func (m *Manager) orFormatter(ctx context.Context, t target, body string, err error) (string, error) {
	if err == nil {
		return body, nil
	}
	code := bridge.CodeOf(err)
	unable := errors.Is(err, errNoFormat)
	if !unable && code != bridge.CodeDenied && code != bridge.CodeUnsupported && code != bridge.CodeUnavailable && code != bridge.CodeCrashed {
		return "", err
	}
	if formatter, ok := m.formatter(t); ok {
		return m.runFormatter(ctx, t, formatter, body)
	}
	if unable {
		return "", &bridge.Error{
			Code: bridge.CodeUnsupported, Message: fmt.Sprintf("the language server for %s cannot format, and no formatter was found", t.language),
			Remedy: "Configure a formatter command for it. " + t.server.Install,
		}
	}
	return "", err
}

func (c *client) formats() bool {
	return offered(c.caps.DocumentFormattingProvider) || c.hasRegistered("textDocument/formatting")
}

func (d *document) format(ctx context.Context, t target) (string, error) {
	tabSize, spaces := indentation(d.s, t.server.TabSize)
	if t.language == "go" {
		spaces = false
	}
	var edits []textEdit
	err := d.c.call(ctx, "textDocument/formatting", map[string]any{
		"textDocument": documentID{d.uri},
		"options": map[string]any{
			"tabSize": tabSize, "insertSpaces": spaces,
			"trimTrailingWhitespace": true, "insertFinalNewline": true, "trimFinalNewlines": true,
		},
	}, &edits)
	if err != nil {
		return "", err
	}
	return d.edited(edits)
}

// edited is the text with a server's edits.
func (d *document) edited(edits []textEdit) (string, error) {
	after, err := d.apply(edits)
	if err == nil && !utf8.ValidString(after) {
		err = errors.New("the result is no text")
	}
	if err != nil {
		return "", &bridge.Error{
			Code: bridge.CodeInternal, Message: fmt.Sprintf("the language server %s sent edits that make no sense", filepath.Base(d.c.program.Path)), Cause: err,
		}
	}
	return after, nil
}

// indentation tells how a text is indented: with tabs, or by how many spaces.
// Where it does not show, fallback spaces are used.
func indentation(s string, fallback int) (size int, spaces bool) {
	if fallback <= 0 {
		fallback = 4
	}
	tabs, before := 0, 0
	steps := map[int]int{}
	for line := range strings.Lines(s) {
		rest := strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(line, "\t"):
			tabs++
			continue
		case strings.TrimSpace(line) == "" || strings.HasPrefix(rest, "*"): // of a block comment
			continue
		}
		n := len(line) - len(rest)
		if step := n - before; step > 1 && step <= 8 {
			steps[step]++
		}
		before = n
	}
	best, votes := fallback, 0
	for _, step := range []int{2, 4, 8, 3, 6} {
		if steps[step] > votes {
			best, votes = step, steps[step]
		}
	}
	if tabs > votes {
		return fallback, false
	}
	return best, true
}

func (m *Manager) runFormatter(ctx context.Context, t target, start Start, body string) (string, error) {
	if err := m.permit(ctx, start); err != nil {
		return "", err
	}
	if !m.begin() {
		return "", closedError()
	}
	defer m.wg.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	c := start.Program
	if m.opts.Confine != nil {
		var err error
		if c, err = m.opts.Confine(ctx, c); err != nil {
			return "", err
		}
	}
	r, err := task.Run(ctx, task.Spec{
		Program: c, Stdin: []byte(body), Trees: m.opts.Trees, Timeout: m.opts.RequestTimeout, MaxOutput: 4 * maxContent,
	})
	if err != nil {
		return "", err
	}
	name := filepath.Base(start.Program.Path)
	switch {
	case r.TimedOut:
		return "", &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("the formatter %s took over %s", name, m.opts.RequestTimeout)}
	case r.ExitCode != 0:
		return "", &bridge.Error{
			Code: bridge.CodeInvalid, Message: fmt.Sprintf("the formatter %s could not format %s%s", name, t.path, quoted(r.Stderr)),
			Remedy: "See that the file's syntax is right.",
		}
	case r.Truncated, r.Stdout == "" && strings.TrimSpace(body) != "":
		return "", &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("the formatter %s gave no usable text for %s", name, t.path)}
	}
	return r.Stdout, nil
}
