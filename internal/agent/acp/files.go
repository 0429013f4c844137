package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// maxFile bounds a file that is read or written for the agent.
const maxFile = 8 << 20

// permit lets the gate see an act of the bridge's own that the agent asks for,
// in the same two steps as one of the agent's: the call, then the permission.
// It returns the call's arguments as the gate wants them.
func (s *conversation) permit(ctx context.Context, tool bridge.ToolCall, req bridge.PermissionRequest) (map[string]any, *bridge.Confinement, error) {
	gateC, cancel := context.WithCancel(s.GateContext())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	waiting := s.WithWaiting(gateC)
	args, _ := tool.Args.(map[string]any)
	d := s.before(waiting, tool)
	grant := d.Grant
	if d.Verdict == bridge.Allow {
		if changed, ok := d.Args.(map[string]any); ok {
			args = changed
		}
		req.Tool, req.CallID = tool.Name, tool.ID
		d = s.Decide(waiting, func(ctx context.Context, g bridge.Gate) bridge.Decision { return g.Permit(ctx, req) })
	}
	if d.Verdict != bridge.Allow {
		return nil, nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "denied: %s", d.Reason)
	}
	return args, grant, nil
}

// within opens the working directory, out of which no name leads, and makes a
// path relative to it.
func (s *conversation) within(path string) (*os.Root, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
		return nil, "", jsonrpc.Errorf(jsonrpc.CodeInternal, "the session is closed")
	}
	if s.root == nil {
		root, err := os.OpenRoot(s.Spec.WorkingDir)
		if err != nil {
			return nil, "", err
		}
		s.root = root
	}
	dir := s.Spec.WorkingDir
	if !filepath.IsAbs(path) {
		return nil, "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the path must be absolute: %s", path)
	}
	rel, err := filepath.Rel(dir, path)
	if place, rerr := filepath.EvalSymlinks(dir); rerr == nil && (err != nil || strings.HasPrefix(rel, "..")) {
		rel, err = filepath.Rel(place, path) // the gate has named the real place
	}
	if err != nil || !filepath.IsLocal(rel) {
		return nil, "", jsonrpc.Errorf(jsonrpc.CodeInternal, "denied: %s is outside the working directory", path)
	}
	return s.root, rel, nil
}

// readFile serves fs/read_text_file under the gate.
func (s *conversation) readFile(ctx context.Context, p acpwire.ReadTextFileRequest) (any, error) {
	tool := bridge.ToolCall{ID: s.number("read"), Name: "view", Args: map[string]any{"path": p.Path}}
	args, _, err := s.permit(ctx, tool, bridge.PermissionRequest{Kind: bridge.PermissionRead, Paths: []string{p.Path}, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	path, _ := args["path"].(string)
	text, err := s.read(path)
	if err != nil {
		s.Spec.Gate.Failed(s.GateContext(), tool, err.Error())
		return nil, err
	}
	if p.Line != nil || p.Limit != nil {
		text = cut(text, p.Line, p.Limit)
	}
	clean, err := s.AfterText(s.GateContext(), tool, text)
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "withheld: %s", err)
	}
	return acpwire.ReadTextFileResponse{Content: clean}, nil
}

func (s *conversation) read(path string) (text string, err error) {
	root, rel, err := s.within(path)
	if err != nil {
		return "", err
	}
	f, err := root.Open(rel)
	if err != nil {
		return "", fileError(path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s is not a file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", fileError(path, err)
	case len(b) > maxFile:
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s is larger than %d MiB", path, maxFile>>20)
	case !utf8.Valid(b):
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s is not text", path)
	}
	return string(b), nil
}

// cut returns limit lines from line on, which counts from 1.
func cut(text string, line, limit *int) string {
	first := 1
	if line != nil {
		first = max(1, *line)
	}
	var b strings.Builder
	n := 0
	for l := range strings.Lines(text) {
		n++
		if n < first {
			continue
		}
		if limit != nil && n >= first+*limit {
			break
		}
		b.WriteString(l)
	}
	return b.String()
}

// writeFile serves fs/write_text_file under the gate.
func (s *conversation) writeFile(ctx context.Context, p acpwire.WriteTextFileRequest) (any, error) {
	if len(p.Content) > maxFile {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the content is larger than %d MiB", maxFile>>20)
	}
	tool := bridge.ToolCall{ID: s.number("write"), Name: "create", Args: map[string]any{"path": p.Path, "file_text": p.Content}}
	args, _, err := s.permit(ctx, tool, bridge.PermissionRequest{Kind: bridge.PermissionWrite, Paths: []string{p.Path}})
	if err != nil {
		return nil, err
	}
	path, _ := args["path"].(string)
	if err := s.write(path, p.Content); err != nil {
		s.Spec.Gate.Failed(s.GateContext(), tool, err.Error())
		return nil, err
	}
	if _, err := s.AfterText(s.GateContext(), tool, fmt.Sprintf("wrote %d bytes to %s", len(p.Content), p.Path)); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "written, but not on record: %s", err)
	}
	return struct{}{}, nil
}

func (s *conversation) write(path, content string) error {
	root, rel, err := s.within(path)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return fileError(path, err)
	}
	f, err := root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fileError(path, err)
	}
	_, err = io.WriteString(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		return fileError(path, err)
	}
	return nil
}

func fileError(path string, err error) error {
	code := jsonrpc.CodeInternal
	if errors.Is(err, fs.ErrNotExist) {
		code = acpwire.CodeResourceNotFound
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return jsonrpc.Errorf(code, "%s: %s", path, err)
}

// number names a call of the bridge's own.
func (s *conversation) number(what string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbered++
	return fmt.Sprintf("acp-%s-%d", what, s.numbered)
}
