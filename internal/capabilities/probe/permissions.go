package probe

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// silence is how long is waited for something that is not expected.
const silence = 3 * time.Second

// expectation is how long is waited for something that is.
const expectation = 30 * time.Second

func (r *rig) mcp() map[string]copilot.MCPServerConfig {
	return map[string]copilot.MCPServerConfig{"helper": copilot.MCPStdioServerConfig{Command: r.opts.Server[0], Args: r.opts.Server[1:],
		Tools: []string{"*"}, Timeout: 10000}}
}

// deadPort is an address on this machine where nobody listens.
func deadPort(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// permissionShapes has the runtime ask for every kind that it can be brought
// to ask for.
func permissionShapes(ctx context.Context, r *rig) error {
	// Offline the runtime offers no web_fetch.
	env, err := r.alone(ctx)
	if err != nil {
		return err
	}
	rt, err := r.runtimeIn(ctx, "", env)
	if err != nil {
		return err
	}
	nowhere, err := deadPort(ctx)
	if err != nil {
		return err
	}
	outside, err := r.folder("outside")
	if err != nil {
		return err
	}
	secret := filepath.Join(outside, "file.txt")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		return err
	}
	var mu sync.Mutex
	shapes, times := map[string]string{}, map[string]int{}
	s, err := r.open(ctx, rt, func(c *copilot.SessionConfig) {
		c.MCPServers = r.mcp()
		c.Memory = &copilot.MemoryConfiguration{Enabled: true}
		c.Tools = []copilot.Tool{{Name: "own_tool", Description: "a tool of the client", Parameters: map[string]any{"type": "object", "properties": map[string]any{}},
			Handler: func(copilot.ToolInvocation) (copilot.ToolResult, error) {
				return copilot.ToolResult{TextResultForLLM: "ok"}, nil
			}}}
		c.Hooks = &copilot.SessionHooks{OnPreToolUse: func(in copilot.PreToolUseHookInput, _ copilot.HookInvocation) (*copilot.PreToolUseHookOutput, error) {
			if in.ToolName == "glob" {
				return &copilot.PreToolUseHookOutput{PermissionDecision: "ask", PermissionDecisionReason: "the hook wants to know"}, nil
			}
			return nil, nil
		}}
		c.OnPermissionRequest = func(p copilot.PermissionRequest, _ copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
			mu.Lock()
			defer mu.Unlock()
			kind := string(p.Kind())
			shapes[kind] = keys(p)
			times[kind]++
			if kind == "url" {
				return &rpc.PermissionDecisionReject{}, nil
			}
			return &rpc.PermissionDecisionApproveOnce{}, nil
		}
	})
	if err != nil {
		return err
	}
	calls := []struct{ kind, call string }{
		{"shell", tool("bash", map[string]any{"command": "touch made-by-shell", "description": "make a file"})},
		{"write", tool("create", map[string]any{"path": filepath.Join(s.dir, "a.txt"), "file_text": "hi"})},
		{"read", tool("view", map[string]any{"path": secret})},
		{"mcp", tool("helper-pid", map[string]any{})},
		{"url", tool("web_fetch", map[string]any{"url": "http://" + nowhere + "/"})},
		{"memory", tool("store_memory", map[string]any{"subject": "tests", "fact": "tests use tables", "citations": "a.go:1", "reason": "it was said", "category": "general", "scope": "repository"})},
		{"custom-tool", tool("own_tool", map[string]any{})},
		{"hook", tool("glob", map[string]any{"pattern": "*.txt"})},
	}
	for _, c := range calls {
		list, err := s.turn(ctx, c.call, "next", "text done")
		if err != nil {
			return fmt.Errorf("%s: %w", c.kind, err)
		}
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
		r.saw(kind, "asked %s for one call, with %s", count(times[kind]), shapes[kind])
	}
	return nil
}

// permissionSilence leaves a permission request unanswered.
func permissionSilence(ctx context.Context, r *rig) error {
	release := make(chan struct{})
	defer close(release)
	asked := make(chan struct{}, 8)
	return r.silent(ctx, asked, []string{tool("bash", map[string]any{"command": "touch never", "description": "x"}), "next", "text done"}, func(c *copilot.SessionConfig) {
		c.OnPermissionRequest = func(copilot.PermissionRequest, copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
			asked <- struct{}{}
			<-release
			return &rpc.PermissionDecisionApproveOnce{}, nil
		}
	})
}

// inputSilence leaves a question to the user unanswered.
func inputSilence(ctx context.Context, r *rig) error {
	release := make(chan struct{})
	defer close(release)
	asked := make(chan struct{}, 8)
	return r.silent(ctx, asked, []string{tool("ask_user", map[string]any{"question": "Which one?", "choices": []string{"a", "b"}}), "next", "text done"}, func(c *copilot.SessionConfig) {
		c.OnUserInputRequest = func(copilot.UserInputRequest, copilot.UserInputInvocation) (copilot.UserInputResponse, error) {
			asked <- struct{}{}
			<-release
			return copilot.UserInputResponse{Answer: "a"}, nil
		}
	})
}

// silent runs a turn that waits for an answer which never comes.
func (r *rig) silent(ctx context.Context, asked <-chan struct{}, turn []string, change func(*copilot.SessionConfig)) error {
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	s, err := r.open(ctx, rt, change)
	if err != nil {
		return err
	}
	from, err := s.say(ctx, turn...)
	if err != nil {
		return err
	}
	select {
	case <-asked:
	case <-ctx.Done():
		return fmt.Errorf("nobody was asked; it said %s: %w", names(s.since(from)), ctx.Err())
	}
	_, ended := s.within(ctx, from, idle)
	r.yesNo("the turn ends by itself within 3 s", ended)
	// Another session of the same runtime goes on meanwhile.
	other, err := r.open(ctx, rt)
	if err != nil {
		return err
	}
	list, err := other.turn(ctx, "text beside")
	if err != nil {
		return err
	}
	r.yesNo("another session of the runtime works meanwhile", lastText(list) == "beside")
	if err := s.Abort(ctx); err != nil {
		return err
	}
	e, ended := s.soon(ctx, from, idle)
	r.yesNo("abort ends it", ended)
	if d, ok := e.Data.(*rpc.SessionIdleData); ok {
		r.yesNo("and says so (session.idle aborted)", d.Aborted != nil && *d.Aborted)
	}
	list, err = s.turn(ctx, "text after")
	if err != nil {
		return err
	}
	r.yesNo("the session works afterwards", lastText(list) == "after")
	_, err = os.Stat(filepath.Join(s.dir, "never"))
	r.yesNo("the tool has run without an answer", err == nil)
	return nil
}

func count(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
