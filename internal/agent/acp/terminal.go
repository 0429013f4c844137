package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

const (
	// maxTerminals bounds what a session may run at a time.
	maxTerminals = 16
	// maxOutput is how much of a terminal's output is kept, the newest.
	maxOutput = 1 << 20
)

// terminal is a command that the agent has asked for.
type terminal struct {
	tool  bridge.ToolCall
	group *program.Group
	read  chan struct{} // closed when all output was read

	mu        sync.Mutex
	mask      bridge.TextMask // nil if the gate has none
	output    []byte
	limit     int
	truncated bool
	recorded  bool
}

// masker is a gate that can hide secrets in a text that comes in pieces.
type masker interface{ Stream() bridge.TextMask }

// createTerminal serves terminal/create under the gate.
func (s *conversation) createTerminal(ctx context.Context, p acpwire.CreateTerminalRequest) (any, error) {
	if p.Command == "" {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "there is no command")
	}
	c, err := s.command(p)
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", err)
	}
	line := c.Line()
	confine := s.link.opts.Confine
	tool := bridge.ToolCall{ID: s.number("terminal"), Name: "bash", Args: map[string]any{"command": line}, Confined: confine != nil}
	_, grant, err := s.permit(ctx, tool, bridge.PermissionRequest{Kind: bridge.PermissionShell, Command: line, Confined: confine != nil})
	if err != nil {
		return nil, err
	}
	if confine != nil {
		if c, err = confine(ctx, s.Spec, c, grant); err != nil {
			s.Spec.Gate.Failed(s.GateContext(), tool, err.Error())
			return nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "%s", err)
		}
	}
	t := &terminal{tool: tool, read: make(chan struct{}), limit: maxOutput}
	if p.OutputByteLimit != nil && *p.OutputByteLimit >= 0 && *p.OutputByteLimit < maxOutput {
		t.limit = int(*p.OutputByteLimit)
	}
	if m, ok := s.Spec.Gate.(masker); ok {
		t.mask = m.Stream()
	}
	s.mu.Lock()
	full := len(s.terminals) >= maxTerminals || s.over()
	if !full {
		s.terminals[tool.ID] = t // its place is taken while it starts
	}
	s.mu.Unlock()
	if full {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "busy: %d terminals are open; release one", maxTerminals)
	}
	g, err := t.start(s, c)
	s.mu.Lock()
	t.group = g
	closed := s.over()
	if err != nil {
		delete(s.terminals, tool.ID)
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		s.Spec.Gate.Failed(s.GateContext(), tool, err.Error())
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "%s: %s", p.Command, err)
	case closed: // meanwhile, so it must be ended here
		return nil, errors.Join(jsonrpc.Errorf(jsonrpc.CodeInternal, "the session is closed"), s.endTerminal(context.WithoutCancel(ctx), t))
	}
	return acpwire.TerminalRef{TerminalID: tool.ID}, nil
}

// command is what a terminal runs, with all that bears on it. Agents give
// whole command lines as well as a program and its arguments.
func (s *conversation) command(p acpwire.CreateTerminalRequest) (program.Command, error) {
	place := program.Place{Root: s.Spec.WorkingDir, Dir: p.Cwd, Env: s.link.opts.TerminalEnv}
	if p.Cwd != "" && !filepath.IsAbs(p.Cwd) {
		return program.Command{}, fmt.Errorf("cwd must be absolute: %s", p.Cwd)
	}
	for _, e := range p.Env {
		place.Set = append(place.Set, e.Name+"="+e.Value)
	}
	if len(p.Args) == 0 {
		return program.Shell(place, p.Command)
	}
	return program.New(place, p.Command, p.Args...)
}

func (t *terminal) start(s *conversation, c program.Command) (*program.Group, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o := s.link.opts
	g, err := c.Start(program.Streams{Out: w, Err: w}, func() (*supervise.Tree, error) { return supervise.NewTree(o.Records, o.Self) })
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	go func() { // ends with the program: release waits for it
		defer close(t.read)
		_, _ = io.Copy(t, r)
		_ = r.Close() // only read from
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.mask != nil {
			t.keep(t.mask.Flush())
		}
	}()
	return g, nil
}

// Write keeps output, secrets hidden.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(p)
	if t.mask != nil {
		text = t.mask.Write(text)
	}
	t.keep(text)
	return len(p), nil
}

// keep appends output and drops the oldest, at the bounds of characters. mu is
// held.
func (t *terminal) keep(text string) {
	t.output = append(t.output, text...)
	over := len(t.output) - t.limit
	if over <= 0 {
		return
	}
	t.truncated = true
	for over < len(t.output) && !utf8.RuneStart(t.output[over]) {
		over++
	}
	t.output = append(t.output[:0], t.output[over:]...)
}

func (t *terminal) text() (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.output), "\uFFFD"), t.truncated
}

func (t *terminal) ended() bool {
	select {
	case <-t.group.Done():
		return true
	default:
		return false
	}
}

func (t *terminal) status() *acpwire.TerminalExitStatus {
	code, signal := t.group.Exit()
	if signal != "" {
		return &acpwire.TerminalExitStatus{Signal: &signal}
	}
	return &acpwire.TerminalExitStatus{ExitCode: &code}
}

func (s *conversation) terminalText(id string) (string, bool) {
	s.mu.Lock()
	t := s.terminals[id]
	s.mu.Unlock()
	if t == nil {
		return "", false
	}
	text, _ := t.text()
	return text, true
}

// terminal serves what can be done with a terminal that exists.
func (s *conversation) terminal(ctx context.Context, method, id string) (any, error) {
	s.mu.Lock()
	t := s.terminals[id]
	if t != nil && t.group == nil {
		t = nil // it is just being started, so its id is not known yet
	}
	s.mu.Unlock()
	if t == nil {
		return nil, jsonrpc.Errorf(acpwire.CodeResourceNotFound, "there is no terminal %s", id)
	}
	switch method {
	case acpwire.MethodTerminalOutput:
		return s.terminalOutput(t)
	case acpwire.MethodTerminalWait:
		select {
		case <-t.group.Done():
			<-t.read
			s.recordTerminal(t)
			return t.status(), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case acpwire.MethodTerminalKill:
		return struct{}{}, t.group.End(ctx, endWithin)
	}
	s.mu.Lock()
	delete(s.terminals, id)
	s.mu.Unlock()
	return struct{}{}, s.endTerminal(ctx, t)
}

func (s *conversation) terminalOutput(t *terminal) (any, error) {
	ended := t.ended()
	if ended {
		<-t.read
	}
	out := acpwire.TerminalOutputResponse{}
	out.Output, out.Truncated = t.text()
	if ended {
		out.ExitStatus = t.status()
	}
	if t.mask == nil {
		clean, err := s.AfterText(s.GateContext(), t.tool, out.Output)
		if err != nil {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "withheld: %s", err)
		}
		out.Output = clean
	} else if ended {
		s.recordTerminal(t)
	}
	return out, nil
}

// recordTerminal puts the end of a terminal on record, once.
func (s *conversation) recordTerminal(t *terminal) {
	t.mu.Lock()
	done := t.recorded
	t.recorded = true
	t.mu.Unlock()
	if done {
		return
	}
	text, _ := t.text()
	if _, err := s.AfterText(s.GateContext(), t.tool, text); err != nil {
		s.link.opts.Logger.Warn("acp.terminal_not_recorded", "error", err)
	}
}

func (s *conversation) endTerminal(ctx context.Context, t *terminal) error {
	err := t.group.End(ctx, endWithin)
	select {
	case <-t.read:
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("output of a terminal: %w", ctx.Err()))
	}
	s.recordTerminal(t)
	return err
}

// endTerminals ends what the session's agent has left running.
func (s *conversation) endTerminals(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	s.mu.Lock()
	var open []*terminal
	for _, t := range s.terminals {
		if t.group != nil { // else createTerminal ends it
			open = append(open, t)
		}
	}
	clear(s.terminals)
	s.mu.Unlock()
	for _, t := range open {
		if err := s.endTerminal(ctx, t); err != nil {
			s.link.opts.Logger.Warn("acp.terminal_end_failed", "error", err)
		}
	}
}
