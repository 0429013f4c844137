package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// subagentHooks has a sub-agent use a tool.
func subagentHooks(ctx context.Context, r *rig) error {
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	for _, mode := range []string{"sync", "background"} {
		for _, deny := range []bool{false, true} {
			if err := r.below(ctx, rt, mode, deny); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rig) below(ctx context.Context, rt *runtime, mode string, deny bool) error {
	var mu sync.Mutex
	seen := map[string]bool{}
	note := func(what, tool string) {
		mu.Lock()
		defer mu.Unlock()
		if tool == "create" {
			seen[what] = true
		}
	}
	s, err := r.open(ctx, rt, func(c *copilot.SessionConfig) {
		c.Hooks = &copilot.SessionHooks{
			OnPreToolUse: func(in copilot.PreToolUseHookInput, _ copilot.HookInvocation) (*copilot.PreToolUseHookOutput, error) {
				note("pre", in.ToolName)
				if deny && in.ToolName == "create" {
					return &copilot.PreToolUseHookOutput{PermissionDecision: "deny", PermissionDecisionReason: "no"}, nil
				}
				return nil, nil
			},
			OnPostToolUse: func(in copilot.PostToolUseHookInput, _ copilot.HookInvocation) (*copilot.PostToolUseHookOutput, error) {
				note("post", in.ToolName)
				return nil, nil
			},
		}
		c.OnPermissionRequest = func(p copilot.PermissionRequest, _ copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
			if p.Kind() == rpc.PermissionRequestKindWrite {
				note("permission", "create")
			}
			return &rpc.PermissionDecisionApproveOnce{}, nil
		}
	})
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, "below.txt")
	inner := script(tool("create", map[string]any{"path": file, "file_text": "x"}), "next", "text below done")
	if _, err := s.turn(ctx, tool("task", map[string]any{"description": "make a file", "name": "maker", "agent_type": "general-purpose", "mode": mode, "prompt": inner}),
		"next", `tool read_agent {"agent_id":"maker","wait":true,"timeout":20}`, "next", "text above done"); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	_, err = os.Stat(file)
	if deny {
		r.yesNo(mode+": a denial of the hook holds below", err != nil)
		return nil
	}
	r.yesNo(mode+": onPreToolUse fires for a sub-agent's tool", seen["pre"])
	r.yesNo(mode+": onPermissionRequest is asked", seen["permission"])
	r.yesNo(mode+": onPostToolUse fires", seen["post"])
	return nil
}

const secretWord = "PROBE-SECRET-4711"

// redaction replaces every string of a tool's result, and looks for what
// still shows.
func redaction(ctx context.Context, r *rig) error {
	for _, t := range []struct {
		name string
		call func(dir string) string
	}{
		{"bash", func(string) string {
			return tool("bash", map[string]any{"command": "cat secret.txt", "description": "x"})
		}},
		{"view", func(dir string) string { return tool("view", map[string]any{"path": filepath.Join(dir, "secret.txt")}) }},
		{"grep", func(dir string) string {
			return tool("grep", map[string]any{"pattern": "PROBE", "paths": []string{dir}, "output_mode": "content"})
		}},
	} {
		if err := r.redact(ctx, t.name, t.call); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

func (r *rig) redact(ctx context.Context, name string, call func(string) string) error {
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	var mu sync.Mutex
	where := map[string]bool{}
	s, err := r.open(ctx, rt, func(c *copilot.SessionConfig) {
		c.Hooks = &copilot.SessionHooks{OnPostToolUse: func(in copilot.PostToolUseHookInput, _ copilot.HookInvocation) (*copilot.PostToolUseHookOutput, error) {
			mu.Lock()
			defer mu.Unlock()
			return &copilot.PostToolUseHookOutput{ModifiedResult: hide(in.ToolResult, "", where)}, nil
		}}
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "secret.txt"), []byte(secretWord+"\n"), 0o600); err != nil {
		return err
	}
	asked := len(r.model.Requests())
	list, err := s.turn(ctx, call(s.dir), "next", "text done")
	if err != nil {
		return err
	}
	mu.Lock()
	places := sorted(where)
	mu.Unlock()
	r.saw(name+": the secret is in these strings of the result", "%s", strings.Join(places, ", "))
	r.yesNo(name+": the model sees it after all were replaced", r.modelSaw(asked, secretWord))
	showing := map[string]bool{}
	for _, e := range list {
		if b, err := json.Marshal(e.Data); err == nil && strings.Contains(string(b), secretWord) {
			showing[string(e.Type())] = true
		}
	}
	r.saw(name+": events that show it all the same", "%s", orNone(sorted(showing)))
	if err := errors.Join(s.Disconnect(), rt.leave(ctx)); err != nil {
		return err
	}
	stored, err := grepTree(filepath.Join(rt.home, "session-state"), secretWord)
	if err != nil {
		return err
	}
	r.saw(name+": it is stored in", "%s", orNone(stored))
	return nil
}

func sorted(m map[string]bool) []string {
	out := []string{}
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// hide replaces every string that has the secret and notes where it was.
func hide(v any, at string, where map[string]bool) any {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, secretWord) {
			where[at] = true
			return strings.ReplaceAll(v, secretWord, "[hidden]")
		}
		return v
	case []any:
		for i := range v {
			v[i] = hide(v[i], at+"[]", where)
		}
		return v
	case map[string]any:
		for k := range v {
			v[k] = hide(v[k], strings.TrimPrefix(at+"."+k, "."), where)
		}
		return v
	default:
		return v
	}
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// grepTree names the files below dir that have the text.
func grepTree(dir, text string) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			found[filepath.Base(path)] = true
		}
		return err
	})
	return sorted(found), err
}

// dies waits for a process to end.
func dies(ctx context.Context, pid int) bool { return diesWithin(ctx, pid, expectation) }

func diesWithin(ctx context.Context, pid int, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for alive(pid) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// pidIn waits until a file holds a process id.
func pidIn(ctx context.Context, path string) (int, error) {
	for {
		if b, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(b), "\n") {
			return strconv.Atoi(strings.TrimSpace(string(b)))
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("the command did not start: %w", ctx.Err())
		}
	}
}

// abortShell aborts turns whose shell is running.
func abortShell(ctx context.Context, r *rig) error {
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	for _, how := range []struct {
		name string
		args map[string]any
	}{
		{"sync", map[string]any{"initial_wait": 120}},
		{"async", map[string]any{"mode": "async"}},
		{"detached", map[string]any{"mode": "async", "detach": true}},
	} {
		s, err := r.open(ctx, rt)
		if err != nil {
			return err
		}
		args := map[string]any{"command": "echo $$ > pid; sleep 600", "description": "wait"}
		for k, v := range how.args {
			args[k] = v
		}
		from, err := s.say(ctx, tool("bash", args), "next", "silence")
		if err != nil {
			return err
		}
		pid, err := pidIn(ctx, filepath.Join(s.dir, "pid"))
		if err != nil {
			return fmt.Errorf("%s: %w", how.name, err)
		}
		if how.name != "sync" { // the model is asked again while it runs
			if _, err := s.await(ctx, from, is[*rpc.ToolExecutionCompleteData]); err != nil {
				return fmt.Errorf("%s: %w", how.name, err)
			}
		}
		patient := expectation
		if how.name == "detached" {
			patient = silence // nothing ends it
		}
		if err := s.Abort(ctx); err != nil {
			return err
		}
		if _, err := s.await(ctx, from, idle); err != nil {
			return err
		}
		gone := diesWithin(ctx, pid, patient)
		r.yesNo(how.name+" shell: ends with abort", gone)
		if gone {
			continue
		}
		if err := s.Disconnect(); err != nil {
			return err
		}
		gone = diesWithin(ctx, pid, patient)
		r.yesNo(how.name+" shell: ends with the session's disconnect", gone)
		if gone {
			continue
		}
		if err := rt.client.DeleteSession(ctx, s.SessionID); err != nil {
			return err
		}
		gone = diesWithin(ctx, pid, patient)
		r.yesNo(how.name+" shell: ends when the session is deleted", gone)
		if gone {
			continue
		}
		if _, err := rt.client.RPC.Runtime.Shutdown(ctx); err != nil {
			return err
		}
		r.yesNo(how.name+" shell: ends with the runtime's shutdown", diesWithin(ctx, pid, patient))
	}
	return nil
}

// mcpLifetime follows the process of a session's tool server.
func mcpLifetime(ctx context.Context, r *rig) error {
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	open := func() (*session, int, error) {
		s, err := r.open(ctx, rt, func(c *copilot.SessionConfig) { c.MCPServers = r.mcp() })
		if err != nil {
			return nil, 0, err
		}
		list, err := s.turn(ctx, "tool helper-pid {}", "next", "text ok")
		if err != nil {
			return nil, 0, err
		}
		for _, d := range all[*rpc.ToolExecutionCompleteData](list) {
			if d.Result != nil {
				_, number, _ := strings.Cut(d.Result.Content, "pid=")
				pid, err := strconv.Atoi(strings.TrimSpace(number))
				return s, pid, err
			}
		}
		return nil, 0, errors.New("the server told no process id")
	}
	one, pid1, err := open()
	if err != nil {
		return err
	}
	two, pid2, err := open()
	if err != nil {
		return err
	}
	r.yesNo("each session has a process of its own", pid1 != pid2)
	if err := one.Abort(ctx); err != nil {
		return err
	}
	r.yesNo("it lives on after an abort", alive(pid1))
	if err := one.Disconnect(); err != nil {
		return err
	}
	r.yesNo("it ends with the session's disconnect", dies(ctx, pid1))
	r.yesNo("the other session's does not", alive(pid2))
	if err := rt.client.DeleteSession(ctx, two.SessionID); err != nil {
		return err
	}
	r.yesNo("it ends when the session is deleted while open", dies(ctx, pid2))
	_, pid3, err := open()
	if err != nil {
		return err
	}
	if _, err := rt.client.RPC.Runtime.Shutdown(ctx); err != nil {
		return err
	}
	r.yesNo("it ends with the runtime's shutdown", dies(ctx, pid3))
	return nil
}
