package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// What follows is for the bridge's own operations on a workspace, which hand
// whole files to programs: their results are masked, not shortened, and the
// record has their size.

// Reveal hides secrets in texts before somebody sees them, records that, and
// returns how many there were.
func (g *Guard) Reveal(ctx context.Context, call bridge.ToolCall, texts ...*string) (int, error) {
	began := time.Now()
	g.ended(call)
	hidden, size, err := g.mask(ctx, texts)
	if err != nil {
		return 0, errors.Join(err, g.record(ctx, audit.Entry{Hook: audit.HookPostTool, Tool: call.Name, Call: call.ID, Decision: "deny", Reason: err.Error()}, began))
	}
	return hidden, g.revealed(ctx, call, hidden, size, began)
}

// manyTexts is from where on it pays to mask with all processors.
const manyTexts = 4096

// mask hides secrets in texts and returns how many there were, and how many
// bytes are left.
func (g *Guard) mask(ctx context.Context, texts []*string) (hidden, size int, err error) {
	workers := 1
	if len(texts) >= manyTexts {
		workers = runtime.GOMAXPROCS(0)
	}
	found, left, failed := make([]int, workers), make([]int, workers), make([]error, workers)
	var running sync.WaitGroup
	for i := range workers {
		part := texts[len(texts)*i/workers : len(texts)*(i+1)/workers]
		running.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					failed[i] = fmt.Errorf("the result is withheld, because secrets in it could not be looked for: %v", p)
				}
			}()
			for _, t := range part {
				clean, n, err := g.results.StringContext(ctx, *t)
				if *t = clean; err != nil {
					failed[i] = err
					return
				}
				found[i], left[i] = found[i]+n, left[i]+len(clean)
			}
		})
	}
	running.Wait()
	for i := range workers {
		hidden, size = hidden+found[i], size+left[i]
	}
	return hidden, size, errors.Join(failed...)
}

// RevealPart is Reveal for a part of a text: secrets are looked for in the
// whole, which shows what the part alone does not, such as the header above the
// lines of a private key. cut gets the whole with its lines in their places.
func (g *Guard) RevealPart(ctx context.Context, call bridge.ToolCall, text *string, cut func(string) string) (int, error) {
	began := time.Now()
	whole, _, err := g.results.Lines(ctx, *text)
	if err != nil {
		*text = ""
		return 0, errors.Join(err, g.record(ctx, audit.Entry{Hook: audit.HookPostTool, Tool: call.Name, Call: call.ID, Decision: "deny", Reason: withheld}, began))
	}
	*text = cut(whole)
	hidden := strings.Count(*text, redact.Marker)
	return hidden, g.revealed(ctx, call, hidden, len(*text), began)
}

// revealed puts on record how much of a result is seen.
func (g *Guard) revealed(ctx context.Context, call bridge.ToolCall, hidden, size int, began time.Time) error {
	e := audit.Entry{Hook: audit.HookPostTool, Tool: call.Name, Call: call.ID, Output: map[string]any{"bytes": size}, Decision: "allow"}
	if hidden > 0 {
		e.Reason = fmt.Sprintf("%d secrets hidden", hidden)
	}
	return g.record(ctx, e, began)
}

// MayRead says whether a file, named relative to the workspace, may be seen in
// lists and among the hits of a search. It asks nobody and records nothing.
func (g *Guard) MayRead(path string) bool {
	res, err := g.opts.Workspace.Resolve(path)
	if err != nil || !res.Inside {
		return false
	}
	return g.policy().MayRead("mcp.fs.read", res.Rel)
}

// WorkingDir resolves a directory that somebody wants to work in, relative to
// the workspace. It has to be a directory inside, which may be read, and in
// which writing is not forbidden altogether.
func (g *Guard) WorkingDir(dir string) (string, error) {
	refuse := func(code bridge.Code, message, remedy string) (string, error) {
		return "", &bridge.Error{Code: code, Message: message, Remedy: remedy}
	}
	if dir == "" {
		return g.opts.Workspace.Root(), nil
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
	readOnly, _ := g.policy().ReadOnly()
	return readOnly
}

// Sources are the policy files in force.
func (g *Guard) Sources() []string { return g.opts.Sources }

// Unreadable says why the policy keeps a file from being read, whichever tool
// would read it, or is empty. It asks nobody and records nothing.
func (g *Guard) Unreadable(path string) string {
	res, err := g.opts.Workspace.Resolve(path)
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
