package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// What follows is for the bridge's own operations on a workspace, which hand
// whole files to programs: their results are masked, not shortened, and the
// record has their size.

// Judge is what Do needs of a Guard.
type Judge interface {
	Before(ctx context.Context, call bridge.ToolCall) bridge.Decision
	Failed(ctx context.Context, call bridge.ToolCall, message string)
	Reveal(ctx context.Context, call bridge.ToolCall, texts ...*string) (int, error)
	// Returned records a result in which nothing is to be hidden.
	Returned(ctx context.Context, call bridge.ToolCall, result any) error
}

// Do runs an operation of the bridge's own under a guard: it is judged before,
// a failure is recorded, and secrets in the texts of its result are hidden
// before anyone sees it. denied words the error of a call that is not allowed.
// texts may be nil.
func Do[T any](ctx context.Context, g Judge, call bridge.ToolCall, denied func(bridge.Decision) error, operate func(bridge.Decision) (T, error), texts func(*T) []*string) (result T, err error) {
	var none T
	d := g.Before(ctx, call)
	if d.Verdict != bridge.Allow {
		return none, denied(d)
	}
	if result, err = operate(d); err != nil {
		g.Failed(ctx, call, err.Error())
		return none, err
	}
	if texts == nil {
		err = g.Returned(ctx, call, result)
	} else {
		_, err = g.Reveal(ctx, call, texts(&result)...)
	}
	if err != nil {
		return none, err
	}
	return result, nil
}

// Denied words the error of a call that is not allowed.
func Denied(tool, remedy string) func(bridge.Decision) error {
	return func(d bridge.Decision) error { return d.Denied(tool+" was denied: "+d.Reason, remedy) }
}

// MayRead says whether a file, named relative to the workspace, may be seen in
// lists and among the hits of a search. It asks no person and records nothing.
func (g *Guard) MayRead(path string) bool {
	res, err := g.opts.Workspace.Resolve(path)
	if err != nil || !res.Inside {
		return false
	}
	if time.Now().UnixNano()-g.lookedAt.Load() > int64(looksLast) {
		g.looked()
	}
	return g.policy().MayRead("mcp.fs.read", res.Rel)
}

// WorkingDir resolves the directory that a session is to work in, relative to
// the workspace. It has to be a directory inside, which may be read, and in
// which writing is not forbidden altogether.
func (g *Guard) WorkingDir(dir string) (string, error) {
	refuse := func(code bridge.Code, message, remedy string) (string, error) {
		return "", &bridge.Error{Code: code, Message: message, Remedy: remedy}
	}
	if dir == "" {
		return g.opts.Workspace.Root(), nil
	}
	if err := g.Usable(); err != nil {
		return "", err
	}
	res, err := g.opts.Workspace.Resolve(dir)
	switch {
	case err != nil:
		return "", err
	case !res.Inside:
		return refuse(bridge.CodeDenied, fmt.Sprintf("%.200q is outside the workspace %s", dir, g.opts.Workspace.Root()), "name a directory inside the workspace")
	case !res.Exists:
		return refuse(bridge.CodeInvalid, fmt.Sprintf("there is no directory %.200q", dir), "name a directory inside the workspace")
	case !res.IsDir:
		return refuse(bridge.CodeInvalid, fmt.Sprintf("%.200q is not a directory", dir), "name a directory inside the workspace")
	}
	if rule, denied := g.policy().ReadDenied(res.Rel); denied {
		return refuse(bridge.CodeDenied, fmt.Sprintf("nobody may work in %.200q: reading it is denied by %s", dir, rule), "work in another directory, or change the policy")
	}
	for _, rel := range []string{res.Rel, res.Named} {
		if rule, sealed := g.policy().Sealed(rel); rel != "" && sealed {
			return refuse(bridge.CodeDenied, fmt.Sprintf("nobody may work in %.200q: it is protected by %s", dir, rule), "work in another directory")
		}
	}
	return res.Abs, nil
}

// ReadOnly says whether nothing may be written, at least not without consent.
func (g *Guard) ReadOnly() bool {
	readOnly, _ := g.looked().ReadOnly()
	return readOnly
}

// Sources are the policy files in force.
func (g *Guard) Sources() []string {
	g.looked()
	if v := g.version.Load(); v != nil {
		return v.Sources
	}
	return nil
}

// Unreadable says why the policy keeps a file from being read, whichever tool
// would read it, or is empty. It asks no person and records nothing.
func (g *Guard) Unreadable(path string) string {
	res, err := g.opts.Workspace.Resolve(path)
	if unusable := g.Usable(); unusable != nil {
		return unusable.Error()
	}
	switch {
	case err != nil:
		return err.Error()
	case !res.Inside:
		return fmt.Sprintf("path escapes workspace root: '%s'", path)
	}
	if rule, denied := g.policy().ReadDenied(res.Rel); denied {
		return "reading it is denied by " + rule.String()
	}
	return ""
}

// Stream hides secrets in a text that comes in pieces.
func (g *Guard) Stream() bridge.TextMask { return g.results.NewStream() }
