package probe

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// ignorableEvents runs the same turn twice, with somebody who hears
// everything and with nobody who hears anything.
func ignorableEvents(ctx context.Context, r *rig) error {
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	turn := func(dir string) []string {
		below := script(tool("glob", map[string]any{"pattern": "*"}), "next", "text below done")
		return []string{"reason hm", "text I begin.", tool("create", map[string]any{"path": filepath.Join(dir, "a.txt"), "file_text": "hi"}),
			tool("bash", map[string]any{"command": "echo hi", "description": "say hi"}), tool("helper-pid", map[string]any{}),
			"next", tool("task", map[string]any{"description": "look", "name": "looker", "agent_type": "general-purpose", "mode": "sync", "prompt": below}),
			"next", "text ALL-DONE"}
	}
	heard, err := r.open(ctx, rt, func(c *copilot.SessionConfig) { c.MCPServers = r.mcp() })
	if err != nil {
		return err
	}
	if _, err := heard.turn(ctx, turn(heard.dir)...); err != nil {
		return err
	}
	var described, inner []copilot.SessionEvent
	for _, e := range heard.since(0) {
		if is[*rpc.RawSessionEventData](e) {
			inner = append(inner, e)
		} else {
			described = append(described, e)
		}
	}
	r.saw("events of a session with text, thoughts, tools, an MCP server and a sub-agent", "%s", names(described))
	r.saw("and events that no schema describes", "%s", names(inner))
	deaf, err := r.open(ctx, rt, func(c *copilot.SessionConfig) {
		c.MCPServers = r.mcp()
		c.OnEvent = nil
	})
	if err != nil {
		return err
	}
	prompt := script(turn(deaf.dir)...)
	_, err = deaf.RPC.Send(ctx, &rpc.SendRequest{Prompt: prompt, Wait: copilot.Bool(true)})
	r.yesNo("a turn whose events nobody hears ends", err == nil)
	stored, err := deaf.GetEvents(ctx)
	if err != nil {
		return err
	}
	r.yesNo("with the same answer", lastText(stored) == "ALL-DONE")
	return nil
}

// retries lets the model fail in each way and counts how often it is asked.
func retries(ctx context.Context, r *rig) error {
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	failures := []string{"status 400 bad", "status 401 who", "status 403 no", "status 404 none", "status 408 slow", "status 413 big", "status 429 wait",
		"ratelimit 1s", "status 500 oops", "status 502 gate", "status 503 later", "cut", "malformed data: {not json\\n\\n"}
	seen := make([]string, len(failures))
	errs := make([]error, len(failures))
	var wg sync.WaitGroup
	for i, f := range failures {
		wg.Go(func() { seen[i], errs[i] = r.failing(ctx, rt, i, f) })
	}
	wg.Wait()
	for i, f := range failures {
		if errs[i] != nil {
			return fmt.Errorf("%s: %w", f, errs[i])
		}
		r.saw(f, "%s", seen[i])
	}
	return nil
}

func (r *rig) failing(ctx context.Context, rt *runtime, i int, failure string) (string, error) {
	hooked := 0
	var mu sync.Mutex
	s, err := r.open(ctx, rt, func(c *copilot.SessionConfig) {
		c.Hooks = &copilot.SessionHooks{OnErrorOccurred: func(copilot.ErrorOccurredHookInput, copilot.HookInvocation) (*copilot.ErrorOccurredHookOutput, error) {
			mu.Lock()
			hooked++
			mu.Unlock()
			return nil, nil
		}}
	})
	if err != nil {
		return "", err
	}
	mark := fmt.Sprintf("FAILURE-NUMBER-%d-", i)
	from := s.count()
	if _, err := s.Send(ctx, copilot.MessageOptions{Prompt: mark + "\n" + script(failure)}); err != nil {
		return "", err
	}
	if _, err := s.await(ctx, from, idle); err != nil {
		return "", fmt.Errorf("it said %s: %w", names(s.since(from)), err)
	}
	asked := 0
	for _, q := range r.model.Requests() {
		if bytes.Contains(q.Raw, []byte(mark)) {
			asked++
		}
	}
	list := s.since(from)
	out := fmt.Sprintf("asked %d times, %d model.call_failure", asked, len(all[*rpc.ModelCallFailureData](list)))
	for _, e := range all[*rpc.SessionErrorData](list) {
		out += ", session.error " + e.ErrorType
		if e.StatusCode != nil {
			out += fmt.Sprintf(" %d", *e.StatusCode)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return out + fmt.Sprintf(", onErrorOccurred %d times", hooked), nil
}
