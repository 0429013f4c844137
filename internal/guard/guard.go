// Package guard decides what a session may do. Agents ask it through
// bridge.Gate, once before every tool call and once for every permission
// request of the runtime; it fails closed.
//
// What it holds to is the default of the design: inside the workspace reading
// and writing are allowed, what is outside of it is denied, commands and the
// network need a person's consent, a few files may never be written, and what
// it does not know it denies.
package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Options make a Guard. Workspace and Asker are required.
type Options struct {
	Workspace string
	// Protected are directories that nothing may write to, such as the
	// bridge's own.
	Protected []string
	Asker     approval.Asker
	// AskTimeout bounds how long a person may take; no answer is a denial.
	AskTimeout time.Duration
	// AllowTools need no consent, by name.
	AllowTools []string
	// MaxRetries caps what Recover allows.
	MaxRetries int
}

// Guard is the gate of one session. Its methods may be called concurrently.
type Guard struct {
	opts Options
	root string

	mu       sync.Mutex
	agreed   map[string]bool // what a person has allowed for the session
	attempts int
}

// New returns the guard of a workspace, which must exist.
func New(opts Options) (*Guard, error) {
	if opts.Asker == nil {
		opts.Asker = approval.Nobody{}
	}
	if opts.AskTimeout <= 0 {
		opts.AskTimeout = 5 * time.Minute
	}
	root, err := realPath(opts.Workspace)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the workspace " + opts.Workspace + " cannot be used", Cause: err,
			Remedy: "name an existing directory"}
	}
	return &Guard{opts: opts, root: root, agreed: map[string]bool{}}, nil
}

// Prompt passes the text on as it is.
func (g *Guard) Prompt(_ context.Context, text string) (string, error) { return text, nil }

// Before raises no objection: every tool that matters asks for permission.
func (g *Guard) Before(context.Context, bridge.ToolCall) bridge.Decision {
	return bridge.Decision{Verdict: bridge.Allow}
}

// After passes the result on as it is.
func (g *Guard) After(_ context.Context, _ bridge.ToolCall, result any) (any, error) {
	return result, nil
}

// Failed has nothing to do yet.
func (g *Guard) Failed(context.Context, bridge.ToolCall, string) {}

// Recover sorts an error by its text.
func (g *Guard) Recover(_ context.Context, message string, _ bool) bridge.Recovery {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attempts++
	return bridge.ClassifyText(message).Recovery(g.attempts, g.opts.MaxRetries)
}

// Permit decides about a permission request.
func (g *Guard) Permit(ctx context.Context, r bridge.PermissionRequest) bridge.Decision {
	switch r.Kind {
	case bridge.PermissionRead:
		return g.inside(r.Paths, "read")
	case bridge.PermissionWrite:
		if d := g.inside(r.Paths, "written"); d.Verdict != bridge.Allow {
			return d
		}
		return g.unprotected(r.Paths)
	case bridge.PermissionCustom:
		// The caller runs these itself.
		return allow("the caller's own tool")
	case bridge.PermissionShell, bridge.PermissionURL, bridge.PermissionMCP, bridge.PermissionMemory, bridge.PermissionHook:
		if slices.Contains(g.opts.AllowTools, r.Tool) && r.Tool != "" {
			return allow("always allowed by configuration")
		}
		return g.ask(ctx, r)
	case bridge.PermissionUnknown:
	}
	return deny("unknown kind of request " + r.Native)
}

func allow(reason string) bridge.Decision {
	return bridge.Decision{Verdict: bridge.Allow, Reason: reason}
}
func deny(reason string) bridge.Decision {
	return bridge.Decision{Verdict: bridge.Deny, Reason: reason}
}

// ask puts the request to a person, once for each distinct thing if they say
// so.
func (g *Guard) ask(ctx context.Context, r bridge.PermissionRequest) bridge.Decision {
	q := question(r)
	key := string(r.Kind) + "\x00" + r.Server + "\x00" + r.Tool + "\x00" + q.Summary + "\x00" + q.Detail
	g.mu.Lock()
	agreed := g.agreed[key]
	g.mu.Unlock()
	if agreed {
		return allow("allowed for this session")
	}
	ctx, cancel := context.WithTimeout(ctx, g.opts.AskTimeout)
	defer cancel()
	answer, err := g.opts.Asker.Ask(ctx, q)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return deny(fmt.Sprintf("nobody answered within %s", g.opts.AskTimeout))
	case err != nil:
		reason := err.Error()
		if e := bridge.AsError(err); e.Remedy != "" {
			reason += " (" + e.Remedy + ")"
		}
		return deny(reason)
	case answer == approval.Session:
		g.mu.Lock()
		g.agreed[key] = true
		g.mu.Unlock()
		return allow("allowed for this session")
	case answer == approval.Once:
		return allow("allowed once")
	}
	return deny("the user said no")
}

func question(r bridge.PermissionRequest) approval.Question {
	q := approval.Question{Request: r}
	switch r.Kind {
	case bridge.PermissionShell:
		q.Summary = "run: " + r.Command
		if first, _, more := strings.Cut(r.Command, "\n"); more {
			q.Summary, q.Detail = "run: "+first+" …", r.Command
		}
	case bridge.PermissionURL:
		q.Summary = "fetch: " + strings.Join(r.URLs, " ")
	case bridge.PermissionMCP:
		q.Summary = "call tool: " + r.Server + "/" + r.Tool
		if r.Args != nil {
			q.Detail = fmt.Sprint(r.Args)
		}
	case bridge.PermissionMemory:
		q.Summary = "remember: " + r.Intention
	case bridge.PermissionHook:
		q.Summary = "go on with " + r.Tool + ": " + r.Intention
	default:
		q.Summary = string(r.Kind) + " " + r.Tool
	}
	return q
}
