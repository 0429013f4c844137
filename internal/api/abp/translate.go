package abp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
)

// call is a tool call that was begun.
type call struct {
	name    string
	command string   // of a shell
	writes  []string // files that it asked to write
	denied  string   // why the runtime's own question was answered with no
}

const (
	// maxPreview is how much of an output an event shows beside the whole.
	maxPreview = 1000
	deniedCode = "denied"
)

// take makes ABP's events of one of the bridge's.
func (r *run) take(ev bridge.Event) {
	if o, ok := ev.(bridge.Other); ok && strings.HasPrefix(o.Name, bridge.RawPrefix) {
		r.flushRaw()
		r.raw = &o
		return
	}
	switch e := ev.(type) {
	case bridge.TextDelta:
		r.tell(ev, contract.Event{Kind: contract.AssistantDelta, Text: e.Text, Ext: agent(e.AgentID)})
	case bridge.MessageDone:
		r.said(e)
	case bridge.MessageRetracted:
		r.tell(ev, contract.Event{Kind: contract.Warning, Message: "the model's stream broke; what was said of this message is void and comes again"})
	case bridge.ToolStarted:
		r.began(e)
	case bridge.PermissionAsked:
		if c := r.calls[e.Request.CallID]; c != nil && e.Request.Kind == bridge.PermissionWrite && len(e.Request.Paths) > 0 {
			c.writes = append(c.writes, e.Request.Paths[0])
		}
	case bridge.PermissionDecided:
		if c := r.calls[e.CallID]; c != nil && e.Decision.Verdict != bridge.Allow {
			c.denied = cmp.Or(e.Decision.Reason, "denied")
		}
	case bridge.ToolFinished:
		r.finished(e)
	case bridge.UsageReported:
		r.usage = r.usage.Add(e.Usage)
		r.counted = append(r.counted, e.Usage)
	case bridge.ModelFailed:
		r.tell(ev, contract.Event{Kind: contract.Warning, Message: fmt.Sprintf("a request to the model failed (attempt %d): %s", e.Attempt, words(e.Error))})
	case bridge.Notice:
		if e.Level != "info" && e.Level != "note" {
			r.tell(ev, contract.Event{Kind: contract.Warning, Message: e.Text})
		}
	case bridge.Failed:
		r.failed(e)
	case bridge.ReasoningDelta, bridge.ToolProgress:
		if r.plan.mode == contract.Passthrough {
			r.tell(ev, contract.Event{Kind: contract.AssistantDelta})
		}
	default:
	}
}

// agent marks what a sub-agent does.
func agent(id string) contract.Object {
	if id == "" {
		return nil
	}
	return contract.Object{{Key: "agent_id", Value: id}}
}

// tell emits an event. In passthrough mode the event carries the runtime's event
// that it was made of or, for pieces of text, the bridge's.
func (r *run) tell(ev bridge.Event, e contract.Event) {
	if r.plan.mode == contract.Passthrough {
		switch {
		case e.Kind == contract.AssistantDelta:
			// Text that was held back comes after the runtime's event that
			// completes it. That event belongs to the next one.
			if r.raw != nil && !strings.HasSuffix(r.raw.Name, "assistant.message") && !strings.HasSuffix(r.raw.Name, "tool.execution_complete") {
				r.flushRaw()
			}
			if b, err := bridge.EncodeEvent(ev); err == nil {
				e.Ext = append(e.Ext, contract.Member{Key: rawKey, Value: contract.FromGo(json.RawMessage(b))})
			}
		case r.raw != nil:
			e.Ext = append(e.Ext, contract.Member{Key: rawKey, Value: contract.FromGo(r.raw.Data)})
			r.raw = nil
		}
	}
	r.emit(e)
}

// rawKey is where an event carries what it was made of.
const rawKey = "raw_message"

// flushRaw emits an event of the runtime that has no meaning in ABP, as a piece of
// text without text.
func (r *run) flushRaw() {
	if r.raw != nil {
		r.emit(contract.Event{Kind: contract.AssistantDelta, Ext: contract.Object{{Key: rawKey, Value: contract.FromGo(r.raw.Data)}}})
		r.raw = nil
	}
}

func (r *run) said(e bridge.MessageDone) {
	if e.AgentID == "" {
		r.turns++
		r.pending = map[string]bool{}
		for _, c := range e.Calls {
			r.pending[c.ID] = true
		}
	}
	if e.Text != "" {
		r.tell(e, contract.Event{Kind: contract.AssistantMessage, Text: e.Text, Ext: agent(e.AgentID)})
	}
}

func (r *run) began(e bridge.ToolStarted) {
	c := &call{name: e.Call.Name}
	args, _ := e.Call.Args.(map[string]any)
	if c.name == "bash" || c.name == "powershell" {
		c.command, _ = args["command"].(string)
	}
	if p, ok := args["path"].(string); ok && (c.name == "create" || c.name == "edit" || c.name == "str_replace_editor") {
		c.writes = append(c.writes, p)
	}
	r.calls[e.Call.ID] = c
	input := contract.FromGo(e.Call.Args)
	if input == nil {
		input = contract.Object{}
	}
	r.tell(e, contract.Event{Kind: contract.ToolCall, Tool: c.name, ToolUse: &e.Call.ID, Parent: notEmpty(e.Call.Parent), Input: input, Ext: agent(e.AgentID)})
}

func notEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

var hookPrefix = regexp.MustCompile(`^(?i:denied by pretooluse hook:\s*)`)

func (r *run) finished(e bridge.ToolFinished) {
	c := r.calls[e.CallID]
	if c == nil {
		c = &call{name: e.Name}
	}
	delete(r.calls, e.CallID)
	delete(r.pending, e.CallID)
	result := contract.Event{Kind: contract.ToolResult, Tool: c.name, ToolUse: &e.CallID, IsError: !e.OK, Ext: agent(e.AgentID)}
	switch {
	case !e.OK && (e.Code == deniedCode || c.denied != ""):
		reason := cmp.Or(c.denied, hookPrefix.ReplaceAllString(e.Error, ""))
		r.emit(contract.Event{Kind: contract.Warning, Message: "tool denied: " + reason + " (" + c.name + ")"})
		result.Output = contract.Object{{Key: "denied", Value: true}, {Key: "reason", Value: valid(reason)}}
		r.tell(e, result)
		return
	case !e.OK:
		result.Output = contract.Object{{Key: "code", Value: valid(e.Code)}, {Key: "error", Value: valid(e.Error)}}
		r.tell(e, result)
		return
	}
	text := r.unspilled(r.whole.take(c.name, e.Result))
	result.Output = r.inline(c.name, text)
	r.tell(e, result)
	if c.command != "" {
		preview := clip(valid(e.Result), maxPreview)
		r.emit(contract.Event{Kind: contract.CommandExecuted, Command: valid(c.command), ExitCode: exitCode(e.Result), Preview: &preview})
	}
	var told []string
	for _, p := range c.writes {
		rel := r.relative(p)
		if slices.Contains(told, rel) {
			continue
		}
		told = append(told, rel)
		summary := "changed by " + c.name
		if c.name == "create" {
			summary = "created"
		}
		r.emit(contract.Event{Kind: contract.FileChanged, Path: rel, Summary: summary})
	}
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// relative names a file by the workspace, if it is in there.
func (r *run) relative(p string) string {
	rel := p
	if filepath.IsAbs(p) {
		if in, err := filepath.Rel(r.plan.order.Root, p); err == nil && filepath.IsLocal(in) {
			rel = in
		}
	}
	return valid(filepath.ToSlash(rel))
}

// inline is an output as an event carries it: as it is, or where it is kept.
func (r *run) inline(tool, text string) any {
	text = valid(text)
	if len(text) <= r.door.opts.MaxInline {
		return text
	}
	rel, err := keep(r.plan.order.Root, string(r.runID), tool, r.door.opts.Now(), text)
	if err != nil {
		r.warn("the output of " + tool + " could not be kept, so only its beginning is here: " + err.Error())
		return clip(text, max(r.door.opts.MaxInline, maxPreview))
	}
	r.artifacts = append(r.artifacts, contract.Artifact{Kind: "tool_output", Path: rel})
	return contract.Object{{Key: "artifact", Value: rel}, {Key: "bytes", Value: uint64(len(text))}, {Key: "preview", Value: clip(text, min(maxPreview, r.door.opts.MaxInline))},
		{Key: "truncated", Value: true}}
}

func (r *run) failed(e bridge.Failed) {
	text := r.door.service.Clean(words(e.Error))
	switch e.Error.Code {
	case bridge.CodeCanceled, bridge.CodeBudget:
		r.stop(text)
		return
	default:
	}
	code := codeOf(e.Error)
	r.outcome, r.summary = contract.Failed, text
	r.tell(e, contract.Event{Kind: contract.Failure, Message: text, ErrorCode: &code})
}

var exitLine = regexp.MustCompile(`(?i)exit(?:ed with)? (?:exit )?code:? (-?\d+)\D*$`)

// exitCode reads the code that the runtime's shell puts at the end.
func exitCode(text string) *int32 {
	m := exitLine.FindStringSubmatch(strings.TrimSpace(text[max(0, len(text)-200):]))
	if m == nil {
		return nil
	}
	n, err := strconv.ParseInt(m[1], 10, 32)
	if err != nil {
		return nil
	}
	return new(int32(n))
}

// clip shortens a text between characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// wholeOutputs keeps the whole results of tools until the tools have finished.
type wholeOutputs struct {
	mu   sync.Mutex
	text map[string][]string // by tool
}

// add is called from the agent's goroutines.
func (w *wholeOutputs) add(tool string, result any) {
	m, ok := result.(map[string]any)
	if !ok {
		return
	}
	text, ok := m["textResultForLlm"].(string)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text == nil {
		w.text = map[string][]string{}
	}
	w.text[tool] = append(w.text[tool], text)
}

// take returns the output of which short is a shortened form.
func (w *wholeOutputs) take(tool, short string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	const enough = 512
	for i, text := range w.text[tool] {
		if text[:min(enough, len(text))] == short[:min(enough, len(short))] {
			w.text[tool] = slices.Delete(w.text[tool], i, i+1)
			return text
		}
	}
	return short
}
