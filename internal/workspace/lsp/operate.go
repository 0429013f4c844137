package lsp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// maxContent bounds a file that servers are asked about.
const maxContent = 8 << 20

// target is a file, as far as it is known before a server is there.
type target struct {
	path, language, id string
	server             Server
}

func (m *Manager) target(path string) (target, error) {
	if !fs.ValidPath(path) || path == "." || strings.ContainsAny(path, "\x00\\") {
		return target{}, &bridge.Error{
			Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q is no path of a file in the workspace", path),
			Remedy: "Give a path relative to the workspace, with slashes and without . and .. in it.",
		}
	}
	name, id, ok := m.table.find(path)
	if !ok {
		return target{}, &bridge.Error{
			Code: bridge.CodeUnsupported, Message: fmt.Sprintf("no language server is known for %s", path),
			Remedy: "Configure one: its command, and the extensions it serves.",
		}
	}
	return target{path: path, language: name, id: id, server: m.table.servers[name]}, nil
}

// do runs an operation on the language's server. Operations change nothing,
// so one whose server died under it is tried once more on a new one.
func (m *Manager) do(ctx context.Context, t target, what string, operation func(context.Context, *client) error) error {
	s, err := m.slot(t.language)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		c, err := m.server(ctx, t, s)
		if err != nil {
			return err
		}
		err = m.once(ctx, s, c, operation)
		switch refusal, refused := asRefusal(err); {
		case err == nil:
			return nil
		case refused:
			return c.refused(what, refusal)
		case errors.Is(err, jsonrpc.ErrClosed):
			if m.ctx.Err() != nil {
				return closedError()
			}
			if attempt == 1 && ctx.Err() == nil {
				continue
			}
			return c.lostError(c.conn.Err())
		case ctx.Err() != nil:
			return contextError(ctx, "the request to the language server")
		case errors.Is(err, context.DeadlineExceeded):
			return &bridge.Error{
				Code: bridge.CodeTimeout, Message: fmt.Sprintf("the language server for %s gave no answer within %s", t.language, m.opts.RequestTimeout),
				Remedy: "Try again: on a large project the first answer takes longest.",
			}
		}
		return err
	}
}

// server returns the language's server. Where none runs, the command to start
// is found, put to Permit, and that very command started.
func (m *Manager) server(ctx context.Context, t target, s *slot) (*client, error) {
	rules := m.opts.Rules()
	c, err := s.acquire(ctx, rules, nil)
	if !errors.Is(err, errNotJudged) {
		return c, err
	}
	start, err := m.startOf(t.language, t.server)
	if err != nil {
		return nil, err
	}
	if err := m.permit(ctx, start); err != nil {
		return nil, err
	}
	start.rules = rules
	return s.acquire(ctx, rules, &start)
}

func (m *Manager) permit(ctx context.Context, start Start) error {
	if m.opts.Permit == nil {
		return nil
	}
	return m.opts.Permit(ctx, start)
}

func (m *Manager) once(ctx context.Context, s *slot, c *client, operation func(context.Context, *client) error) error {
	bounded, cancel := context.WithTimeout(ctx, m.opts.RequestTimeout)
	defer cancel()
	heard := c.conn.heard.Load()
	c.notifyChanges(bounded, s.stale.Swap(false))
	err := operation(bounded, c)
	if _, refused := asRefusal(err); err == nil || refused {
		c.completed.Add(1)
	}
	// Silence all the time, not even about progress: it hangs.
	hung := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && c.conn.heard.Load() == heard
	s.release(c, hung)
	return err
}

func asRefusal(err error) (*jsonrpc.Error, bool) {
	var refusal *jsonrpc.Error
	ok := errors.As(err, &refusal)
	return refusal, ok
}

// content checks a text and takes off its byte order mark, which the
// protocol does not have; restore puts it back.
func content(path, s string) (body string, restore func(string) string, err error) {
	if len(s) > maxContent {
		return "", nil, &bridge.Error{
			Code: bridge.CodeInvalid, Message: fmt.Sprintf("%s has %d bytes; language servers are asked about up to %d", path, len(s), maxContent),
		}
	}
	if !utf8.ValidString(s) {
		return "", nil, &bridge.Error{
			Code: bridge.CodeInvalid, Message: path + " is not UTF-8 text", Remedy: "Convert the file to UTF-8.",
		}
	}
	const bom = "\uFEFF"
	if body, ok := strings.CutPrefix(s, bom); ok {
		return body, func(s string) string { return bom + s }, nil
	}
	return s, func(s string) string { return s }, nil
}

// read returns a file of the workspace, which no link leads out of.
func (m *Manager) read(path string) (string, error) {
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		return "", fmt.Errorf("workspace: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	b, err := files.ReadAll(root, path, maxContent+1)
	return string(b), err
}
