package capabilities

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync/atomic"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// ignorableEvents runs the same turn twice, with and without a listener.
func ignorableEvents(r *rig) {
	rt := r.runtime("")
	turn := func(dir string) []string {
		below := script(tool("glob", args{"pattern": "*"}), "next", "text below done")
		return []string{"reason hm", "text I begin.", tool("create", args{"path": filepath.Join(dir, "a.txt"), "file_text": "hi"}),
			shell("echo hi"), tool("helper-pid", args{}),
			"next", tool("task", args{"description": "look", "name": "looker", "agent_type": "general-purpose", "mode": "sync", "prompt": below}),
			"next", "text ALL-DONE"}
	}
	heard := r.open(rt, r.helper)
	heard.turn(turn(heard.dir)...)
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
	deaf := r.open(rt, r.helper, func(c *copilot.SessionConfig) { c.OnEvent = nil })
	_, err := deaf.RPC.Send(r.ctx, &rpc.SendRequest{Prompt: script(turn(deaf.dir)...), Wait: copilot.Bool(true)})
	r.yesNo("a turn whose events nobody hears ends", err == nil)
	r.yesNo("with the same answer", lastText(must(deaf.GetEvents(r.ctx))) == "ALL-DONE")
}

// retries lets the model fail in each way and counts how often it is asked.
func retries(r *rig) {
	rt := r.runtime("")
	failures := []string{"status 400 bad", "status 401 who", "status 403 no", "status 404 none", "status 408 slow", "status 413 big", "status 429 wait",
		"ratelimit 1s", "status 500 oops", "status 502 gate", "status 503 later", "cut", "malformed data: {not json\\n\\n"}
	seen := make([]string, len(failures))
	together(len(failures), func(i int) { seen[i] = r.failing(rt, i, failures[i]) })
	for i, f := range failures {
		r.saw(f, "%s", seen[i])
	}
}

func (r *rig) failing(rt *runtime, i int, failure string) string {
	var hooked atomic.Int32
	s := r.open(rt, func(c *copilot.SessionConfig) {
		c.Hooks = &copilot.SessionHooks{OnErrorOccurred: func(copilot.ErrorOccurredHookInput, copilot.HookInvocation) (*copilot.ErrorOccurredHookOutput, error) {
			hooked.Add(1)
			return nil, nil
		}}
	})
	mark := fmt.Sprintf("FAILURE-NUMBER-%d-", i)
	from := len(s.since(0))
	must(s.Send(r.ctx, copilot.MessageOptions{Prompt: mark + "\n" + script(failure)}))
	s.await(from, idle)
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
	return out + fmt.Sprintf(", onErrorOccurred %d times", hooked.Load())
}
