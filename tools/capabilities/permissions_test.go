package capabilities

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// permissionShapes has the runtime ask for every kind that it can be brought
// to ask for.
func permissionShapes(r *rig) {
	rt := r.runtimeIn("", r.alone()) // offline the runtime offers no web_fetch
	secret := filepath.Join(r.folder("outside"), "file.txt")
	check(os.WriteFile(secret, []byte("x"), 0o600))
	var mu sync.Mutex
	shapes, times := map[string]string{}, map[string]int{}
	s := r.open(rt, r.helper, func(c *copilot.SessionConfig) {
		c.Memory = &copilot.MemoryConfiguration{Enabled: true}
		c.Tools = ownTool(func(copilot.ToolInvocation) (copilot.ToolResult, error) {
			return copilot.ToolResult{TextResultForLLM: "ok"}, nil
		})
		c.Hooks = &copilot.SessionHooks{OnPreToolUse: func(in copilot.PreToolUseHookInput, _ copilot.HookInvocation) (*copilot.PreToolUseHookOutput, error) {
			if in.ToolName == "glob" {
				return &copilot.PreToolUseHookOutput{PermissionDecision: "ask", PermissionDecisionReason: "the hook wants to know"}, nil
			}
			return nil, nil
		}}
		c.OnPermissionRequest = func(p copilot.PermissionRequest, i copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
			mu.Lock()
			defer mu.Unlock()
			kind := string(p.Kind())
			shapes[kind] = keys(p)
			times[kind]++
			if kind == "url" {
				return &rpc.PermissionDecisionReject{}, nil
			}
			return approve(p, i)
		}
	})
	for _, c := range []struct{ kind, call string }{
		{"shell", shell("touch made-by-shell")},
		{"write", tool("create", args{"path": filepath.Join(s.dir, "a.txt"), "file_text": "hi"})},
		{"read", tool("view", args{"path": secret})},
		{"mcp", tool("helper-pid", args{})},
		{"url", tool("web_fetch", args{"url": "http://" + r.deadPort() + "/"})},
		{"memory", tool("store_memory", args{"subject": "tests", "fact": "tests use tables", "citations": "a.go:1", "reason": "it was said", "category": "general", "scope": "repository"})},
		{"custom-tool", tool("own_tool", args{})},
		{"hook", tool("glob", args{"pattern": "*.txt"})},
	} {
		list := s.turn(c.call, "next", "text done")
		mu.Lock()
		if times[c.kind] == 0 {
			why := "the call went through without"
			for _, d := range all[*rpc.ToolExecutionCompleteData](list) {
				if d.Error != nil {
					why = d.Error.Message
				}
			}
			r.saw(c.kind, "not asked: %s", why)
		}
		mu.Unlock()
	}
	mu.Lock()
	defer mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(shapes)) {
		often := "once"
		if times[kind] != 1 {
			often = fmt.Sprintf("%d times", times[kind])
		}
		r.saw(kind, "asked %s for one call, with %s", often, shapes[kind])
	}
}

// keys names the fields that are set in v on the wire.
func keys(v any) string {
	b, err := json.Marshal(v)
	var m map[string]any
	if err != nil || json.Unmarshal(b, &m) != nil {
		return "not an object"
	}
	maps.DeleteFunc(m, func(_ string, x any) bool { return x == nil })
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// permissionSilence leaves a permission request unanswered.
func permissionSilence(r *rig) {
	r.unanswered(shell("touch never"), func(c *copilot.SessionConfig, wait func()) {
		c.OnPermissionRequest = func(p copilot.PermissionRequest, i copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
			wait()
			return approve(p, i)
		}
	})
}

// inputSilence leaves a question to the user unanswered.
func inputSilence(r *rig) {
	r.unanswered(tool("ask_user", args{"question": "Which one?", "choices": []string{"a", "b"}}), func(c *copilot.SessionConfig, wait func()) {
		c.OnUserInputRequest = func(copilot.UserInputRequest, copilot.UserInputInvocation) (copilot.UserInputResponse, error) {
			wait()
			return copilot.UserInputResponse{Answer: "a"}, nil
		}
	})
}

// unanswered runs a turn that waits for an answer which never comes.
func (r *rig) unanswered(call string, change func(c *copilot.SessionConfig, wait func())) {
	release, asked := make(chan struct{}), make(chan struct{}, 8)
	defer close(release)
	rt := r.runtime("")
	s := r.open(rt, func(c *copilot.SessionConfig) {
		change(c, func() {
			asked <- struct{}{}
			<-release
		})
	})
	from := s.say(call, "next", "text done")
	select {
	case <-asked:
	case <-r.ctx.Done():
		check(fmt.Errorf("the handler was not asked; the session said %s: %w", names(s.since(from)), r.ctx.Err()))
	}
	_, ended := s.within(silence, from, idle)
	r.yesNo("the turn ends by itself within 3 s", ended)
	// Another session of the same runtime is not held up.
	r.yesNo("another session of the runtime works meanwhile", lastText(r.open(rt).turn("text beside")) == "beside")
	check(s.Abort(r.ctx))
	e, ended := s.within(expectation, from, idle)
	r.yesNo("abort ends it", ended)
	if d, ok := e.Data.(*rpc.SessionIdleData); ok {
		r.yesNo("and says so (session.idle aborted)", set(d.Aborted))
	}
	r.yesNo("the session works afterwards", lastText(s.turn("text after")) == "after")
	_, err := os.Stat(filepath.Join(s.dir, "never"))
	r.yesNo("the tool has run without an answer", err == nil)
}
