package guard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
)

// ask puts a request to a person, who is shown all of it. Consent for the
// session is for the same bytes only, and for the paths and hosts that were
// granted with it.
func (g *Guard) ask(ctx context.Context, r bridge.PermissionRequest, out policy.Outcome, wall policy.Wall) (d bridge.Decision) {
	why, needs := out.Reason, wants(out.Grant)
	sum, err := sumOf(r, bridge.DetailOf(ctx), needs...)
	if err != nil {
		return deny(why + ": " + err.Error())
	}
	g.mu.Lock()
	agreed := g.agreed[sum]
	if r.ID == "" {
		// A reader of the turn's events finds this question by it.
		g.asked++
		r.ID = fmt.Sprintf("gate-%d", g.asked)
	}
	g.mu.Unlock()
	if agreed {
		d = allow("allowed for this session")
		d.Basis = bridge.BasisSession
		return d
	}
	q := g.question(r, bridge.DetailOf(ctx))
	q.SHA256, q.Reason, q.Rule = sum, why, out.Rule.String()
	q.Session, q.Door, q.Dir = g.Session(), g.opts.Door, cmp.Or(g.opts.Dir, g.opts.Workspace.Root())
	q.Client = cmp.Or(bridge.CallerOf(ctx).Name, g.opts.Client)
	if wall != policy.NoWall {
		g.addNeeds(&q, out, needs)
	}
	if g.opts.Home != "" {
		for _, a := range out.Lasting {
			q.Rules = append(q.Rules, a.String())
		}
	}
	ctx, cancel := context.WithTimeout(ctx, g.opts.AskTimeout)
	defer cancel()
	end, told, wait := bridge.Waiting(ctx, r), func(bridge.Decision) {}, traces.Wait(ctx)
	if g.opts.Observer != nil {
		told = g.opts.Observer.Asked(q.Session, q)
	}
	began := time.Now()
	var answer approval.Answer
	defer func() {
		d.Basis = bridge.BasisNobody
		if err == nil {
			d.Basis = bridge.BasisPerson
		}
		input := map[string]any{"sha256": sum, "summary": q.Summary, "detail": q.Detail}
		if answer.By != "" {
			input["by"], d.By = answer.By, answer.By
		}
		d = g.written(ctx, audit.Entry{Hook: audit.HookApproval, Tool: r.Tool, Call: r.CallID, Input: input, Sandbox: strings.Join(needs, "; ")}, d, began)
		end(d)
		told(d)
		wait.Done(d.Verdict)
	}()
	answered := g.opts.Counts.waiting()
	answer, err = g.opts.Asker.Ask(ctx, q)
	answered()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return deny(fmt.Sprintf("%s, and nobody answered within %s", why, g.opts.AskTimeout))
	case err != nil:
		reason := why + ": " + err.Error()
		if e := bridge.AsError(err); e.Remedy != "" {
			reason += " (" + e.Remedy + ")"
		}
		return deny(reason)
	case answer.Consent == approval.Always && len(q.Rules) > 0:
		g.remember(sum, out.Lasting)
		file, err := policy.Remember(context.WithoutCancel(ctx), g.opts.Home, out.Lasting...)
		if err != nil {
			e := bridge.AsError(err)
			return allow("allowed for this session only: " + e.Error() + " (" + e.Remedy + ")")
		}
		return allow("always allowed from now on: " + strings.Join(q.Rules, ", ") + " was written into " + file)
	case answer.Consent == approval.Session:
		// Consent to a command is for the command that was shown, not for others.
		g.remember(sum, slices.DeleteFunc(slices.Clone(out.Lasting), func(a policy.Addition) bool { return a.List == "sandbox.shell" }))
		return allow("allowed for this session")
	case answer.Consent == approval.Once:
		return allow("allowed once")
	}
	return deny(g.refusal(answer.Reason))
}

// maxReason bounds what a person tells the agent with a refusal, in characters.
const maxReason = 2000

// refusal is a person's no, with what they say about it.
func (g *Guard) refusal(reason string) string {
	const no = "the user said no"
	clean, _ := g.opts.Redactor.String(strings.TrimSpace(reason))
	if clean == "" {
		return no
	}
	return no + ": " + approval.Clip(clean, maxReason)
}

// grantSource is what rules are called that hold until the session ends.
const grantSource = "granted for this session"

// remember keeps a consent until the session ends.
func (g *Guard) remember(sum string, additions []policy.Addition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.agreed[sum] = true
	if len(additions) > 0 {
		g.lifted = append(g.lifted, additions...)
		g.inForce.Store(g.policy().Lift(grantSource, additions...))
	}
}

// addNeeds adds to a question inside a sandbox: why it is asked, what the action
// needs beyond the sandbox, and the scope of each answer.
func (g *Guard) addNeeds(q *approval.Question, out policy.Outcome, needs []string) {
	lines := []string{q.Detail}
	for _, n := range needs {
		lines = append(lines, "needs "+approval.Visible(n))
	}
	lines = append(lines, "because "+approval.Visible(out.Reason))
	if slices.ContainsFunc(out.Lasting, func(a policy.Addition) bool { return a.List != "sandbox.shell" }) {
		lines = append(lines, "for this session: the same paths and hosts for every command")
	}
	q.Outside = out.Grant.Outside
	q.Detail = strings.TrimLeft(strings.Join(lines, "\n"), "\n")
}

// sumOf is the hash of what a request would do: of every byte that matters,
// and of nothing that the model says about it. content is the part that is not
// among the arguments.
func sumOf(r bridge.PermissionRequest, content string, needs ...string) (string, error) {
	words := r.Intention
	if worded(r) {
		words = ""
	}
	args, err := json.Marshal(argsOf(r)) // its keys are sorted
	if err != nil {
		return "", fmt.Errorf("its arguments cannot be written down: %w", err)
	}
	h := sha256.New()
	// Quoting keeps the parts apart, and bytes that are no text.
	fmt.Fprintf(h, "%q %q %q %q %q %q %q %q %q %q %s", r.Kind, r.Native, r.Server, r.Tool, r.Command, r.Paths, r.URLs, r.Diff, content, words, args)
	if len(needs) > 0 {
		fmt.Fprintf(h, " %q", needs)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// worded says whether a request's Intention is only what the model says of it.
func worded(r bridge.PermissionRequest) bool {
	switch r.Kind {
	case bridge.PermissionShell, bridge.PermissionWrite, bridge.PermissionRead, bridge.PermissionURL:
		return true
	case bridge.PermissionMCP, bridge.PermissionMemory, bridge.PermissionCustom, bridge.PermissionHook, bridge.PermissionUnknown:
	}
	return false
}

// argsOf are a request's arguments without the words of the model about a
// command.
func argsOf(r bridge.PermissionRequest) any {
	args, ok := r.Args.(map[string]any)
	if !ok || !runtimeShells[r.Tool] {
		return r.Args
	}
	args = maps.Clone(args)
	delete(args, "description")
	return args
}

// runtimeShells are the runtime's own tools that take a command and the
// model's description of it.
var runtimeShells = map[string]bool{"bash": true, "powershell": true}

// requestOf words a tool call as a request, to be put to a person.
func requestOf(call bridge.ToolCall, a policy.Action) bridge.PermissionRequest {
	r := bridge.PermissionRequest{CallID: call.ID, Tool: call.Name, Server: a.Server, Args: call.Args, Agents: call.Agents}
	args, _ := call.Args.(map[string]any)
	switch a.Kind {
	case policy.KindShell:
		r.Kind = bridge.PermissionShell
		r.Command, _ = commandOf(call)
		if runtimeShells[call.Name] {
			r.Intention, _ = args["description"].(string)
		}
	case policy.KindRead, policy.KindWrite:
		r.Kind = bridge.PermissionRead
		if a.Kind == policy.KindWrite {
			r.Kind = bridge.PermissionWrite
		}
		for _, p := range a.Paths {
			if a.Kind == policy.KindRead || p.Write {
				r.Paths = append(r.Paths, cmp.Or(p.Rel, p.Name))
			}
		}
	case policy.KindNetwork:
		r.Kind = bridge.PermissionURL
		if u, ok := args["url"].(string); ok {
			r.URLs = []string{u}
		}
	case policy.KindMemory:
		r.Kind = bridge.PermissionMemory
	case policy.KindHook:
		r.Kind = bridge.PermissionHook
	default:
		r.Kind = bridge.PermissionMCP
	}
	return r
}

// commandOf is what a call gives to a shell; ok is false if that is no text.
func commandOf(call bridge.ToolCall) (text string, ok bool) {
	args, _ := call.Args.(map[string]any)
	name := "command"
	if call.Name == "write_bash" {
		name = "input"
	}
	text, ok = args[name].(string)
	return text, ok
}

// question words a request for a person: all of it, but for secrets.
func (g *Guard) question(r bridge.PermissionRequest, content string) approval.Question {
	q := approval.Question{Request: (&mask{redactor: g.opts.Redactor}).request(r), Who: g.opts.Caller}
	q.Summary, q.Detail = g.shown(r, content, &hiding{g.opts.Redactor})
	if r.Kind == bridge.PermissionShell || r.Kind == bridge.PermissionURL {
		q.Says = q.Request.Intention
	}
	switch summary, detail := g.shown(r, content, nil); {
	case r.Kind == bridge.PermissionWrite && detail == "":
		q.Unshown = "what would be written is not said"
	case conceals(summary+detail, q.Summary+q.Detail),
		r.Kind == bridge.PermissionShell && strings.Contains(q.Summary+q.Detail, "="+redact.Marker) && runsVariable.MatchString(r.Command):
		q.Unshown = "a part of it looks like a secret, and may be more than that"
	}
	parts := []string{q.Detail}
	if strings.Contains(q.Summary+q.Detail, redact.Marker) {
		parts = append(parts, "("+redact.Marker+" stands for a secret)")
	}
	if approval.Hides(q.Summary + q.Detail) {
		parts = append(parts, `(characters that cannot be seen are written as escapes, such as \u202e)`)
	}
	q.Detail = strings.TrimLeft(strings.Join(parts, "\n"), "\n")
	return q
}

// runsVariable finds a variable where a shell expects the name of a program. If
// the value of one is hidden, as in PASS=curl; $PASS …, nobody can know what runs.
var runsVariable = regexp.MustCompile(`(?:^|[;&|({\n]|\b(?:eval|exec|command|builtin|env|xargs|sudo|sh -c|then|do|else)\s)\s*["']*\$`)

// conceals reports whether a masked part of a text had characters that a shell
// or a program would act on: it is then no plain secret.
func conceals(text, masked string) bool {
	for _, c := range []string{"\n", `\n`, "$", "`", ";", "&", "|", "<", ">", "(", ")", "{", "}"} {
		if strings.Count(text, c) > strings.Count(masked, c) {
			return true
		}
	}
	return false
}
