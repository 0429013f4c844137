package capabilities

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// subagentHooks has a sub-agent use a tool.
func subagentHooks(r *rig) {
	rt := r.runtime("")
	for _, mode := range []string{"sync", "background"} {
		for _, deny := range []bool{false, true} {
			r.below(rt, mode, deny)
		}
	}
}

func (r *rig) below(rt *runtime, mode string, deny bool) {
	var mu sync.Mutex
	seen := map[string]bool{}
	note := func(what, tool string) {
		mu.Lock()
		defer mu.Unlock()
		seen[what] = seen[what] || tool == "create"
	}
	s := r.open(rt, func(c *copilot.SessionConfig) {
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
		c.OnPermissionRequest = func(p copilot.PermissionRequest, i copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
			if p.Kind() == rpc.PermissionRequestKindWrite {
				note("permission", "create")
			}
			return approve(p, i)
		}
	})
	file := filepath.Join(s.dir, "below.txt")
	inner := script(tool("create", args{"path": file, "file_text": "x"}), "next", "text below done")
	s.turn(tool("task", args{"description": "make a file", "name": "maker", "agent_type": "general-purpose", "mode": mode, "prompt": inner}),
		"next", `tool read_agent {"agent_id":"maker","wait":true,"timeout":20}`, "next", "text above done")
	mu.Lock()
	defer mu.Unlock()
	if deny {
		_, err := os.Stat(file)
		r.yesNo(mode+": a denial of the hook holds below", err != nil)
		return
	}
	r.yesNo(mode+": onPreToolUse fires for a sub-agent's tool", seen["pre"])
	r.yesNo(mode+": onPermissionRequest is asked", seen["permission"])
	r.yesNo(mode+": onPostToolUse fires", seen["post"])
}

const secretWord = "PROBE-SECRET-4711"

// redaction replaces every string of a tool's result, and looks for what
// still shows.
func redaction(r *rig) {
	r.redact("bash", func(string) string { return shell("cat secret.txt") })
	r.redact("view", func(dir string) string { return tool("view", args{"path": filepath.Join(dir, "secret.txt")}) })
	r.redact("grep", func(dir string) string {
		return tool("grep", args{"pattern": "PROBE", "paths": []string{dir}, "output_mode": "content"})
	})
}

func (r *rig) redact(name string, call func(dir string) string) {
	rt := r.runtime("")
	var mu sync.Mutex
	where := map[string]bool{}
	s := r.open(rt, func(c *copilot.SessionConfig) {
		c.Hooks = &copilot.SessionHooks{OnPostToolUse: func(in copilot.PostToolUseHookInput, _ copilot.HookInvocation) (*copilot.PostToolUseHookOutput, error) {
			mu.Lock()
			defer mu.Unlock()
			return &copilot.PostToolUseHookOutput{ModifiedResult: hide(in.ToolResult, "", where)}, nil
		}}
	})
	check(os.WriteFile(filepath.Join(s.dir, "secret.txt"), []byte(secretWord+"\n"), 0o600))
	asked := len(r.model.Requests())
	list := s.turn(call(s.dir), "next", "text done")
	mu.Lock()
	r.saw(name+": the secret is in these strings of the result", "%s", sorted(where))
	mu.Unlock()
	r.yesNo(name+": the model sees it after all were replaced", r.asked(asked, secretWord))
	showing := map[string]bool{}
	for _, e := range list {
		if b, err := json.Marshal(e.Data); err == nil && strings.Contains(string(b), secretWord) {
			showing[string(e.Type())] = true
		}
	}
	r.saw(name+": events that show it all the same", "%s", sorted(showing))
	check(s.Disconnect())
	r.leave(rt)
	stored := map[string]bool{}
	check(filepath.WalkDir(filepath.Join(rt.home, "session-state"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), secretWord) {
			stored[filepath.Base(path)] = true
		}
		return err
	}))
	r.saw(name+": it is stored in", "%s", sorted(stored))
}

func sorted(m map[string]bool) string { return listed(slices.Sorted(maps.Keys(m)), "none") }

// hide replaces every string that has the secret and notes where it was.
func hide(v any, at string, where map[string]bool) any {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, secretWord) {
			where[at] = true
		}
		return strings.ReplaceAll(v, secretWord, "[hidden]")
	case []any:
		for i := range v {
			v[i] = hide(v[i], at+"[]", where)
		}
	case map[string]any:
		for k := range v {
			v[k] = hide(v[k], strings.TrimPrefix(at+"."+k, "."), where)
		}
	}
	return v
}

// abortShell aborts turns whose shell is running, and then ends more and more
// around it until the shell ends.
func abortShell(r *rig) {
	rt := r.runtime("")
	for _, how := range []struct {
		name string
		args args
		wait bool // until the model is asked again while it runs
	}{
		{"sync", args{"initial_wait": 120}, false},
		{"async", args{"mode": "async"}, true},
		{"detached", args{"mode": "async", "detach": true}, true},
	} {
		s := r.open(rt)
		maps.Copy(how.args, args{"command": "echo $$ > pid; sleep 600", "description": "wait"})
		from := s.say(tool("bash", how.args), "next", "silence")
		var text []byte
		if !r.poll(patience, func() bool {
			text, _ = os.ReadFile(filepath.Join(s.dir, "pid")) // it comes with the command
			return strings.HasSuffix(string(text), "\n")
		}) {
			check(errors.New(how.name + ": the command did not start"))
		}
		pid := must(strconv.Atoi(strings.TrimSpace(string(text))))
		if how.wait {
			s.await(from, is[*rpc.ToolExecutionCompleteData])
		}
		wait := expectation
		if how.name == "detached" {
			wait = silence // nothing ends it
		}
		for _, step := range []struct {
			name string
			do   func()
		}{
			{"ends with abort", func() {
				check(s.Abort(r.ctx))
				s.await(from, idle)
			}},
			{"ends with the session's disconnect", func() { check(s.Disconnect()) }},
			{"ends when the session is deleted", func() { check(rt.client.DeleteSession(r.ctx, s.SessionID)) }},
			{"ends with the runtime's shutdown", func() { r.shutDown(rt) }},
		} {
			step.do()
			gone := r.dies(pid, wait)
			if r.yesNo(how.name+" shell: "+step.name, gone); gone {
				break
			}
		}
	}
}

// mcpLifetime follows the process of a session's tool server.
func mcpLifetime(r *rig) {
	rt := r.runtime("")
	open := func() (*session, int) {
		s := r.open(rt, r.helper)
		for _, d := range all[*rpc.ToolExecutionCompleteData](s.turn("tool helper-pid {}", "next", "text ok")) {
			if d.Result != nil {
				_, number, _ := strings.Cut(d.Result.Content, "pid=")
				return s, must(strconv.Atoi(strings.TrimSpace(number)))
			}
		}
		check(errors.New("the server told no process id"))
		return nil, 0
	}
	one, pid1 := open()
	two, pid2 := open()
	r.yesNo("each session has a process of its own", pid1 != pid2)
	check(one.Abort(r.ctx))
	r.yesNo("it lives on after an abort", alive(pid1))
	check(one.Disconnect())
	r.yesNo("it ends with the session's disconnect", r.dies(pid1, expectation))
	r.yesNo("the other session's does not", alive(pid2))
	check(rt.client.DeleteSession(r.ctx, two.SessionID))
	r.yesNo("it ends when the session is deleted while open", r.dies(pid2, expectation))
	_, pid3 := open()
	r.shutDown(rt)
	r.yesNo("it ends with the runtime's shutdown", r.dies(pid3, expectation))
}
