package worker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// A coordinator that minds no rules gets no program of the worker's user started by
// a commit, and no directory of its choice.
func TestHostileCoordinator(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.sh(y.repo.Top, `echo '*.bin filter=lfs' >.gitattributes && printf '[lfs]\n\turl = https://evil.example\n' >.lfsconfig && git add . && git commit -qm lfs`)
	y.begin = y.sh(y.repo.Top, "git rev-parse HEAD")
	forged := map[string]func(a *fleet.Assignment){
		"Git LFS":                 func(*fleet.Assignment) {},
		"is no repository":        func(a *fleet.Assignment) { a.Begin = "--upload-pack=touch x" },
		"the ticket that was":     func(a *fleet.Assignment) { a.Repo = "../../x" },
		"not for the ticket":      func(a *fleet.Assignment) { a.Attempt = -1 },
		"not among them":          func(a *fleet.Assignment) { a.Bundle, a.Begin = fleet.Bundle{}, strings.Repeat("1", 40) },
		"the bundle has -1":       func(a *fleet.Assignment) { a.Bundle.Size = -1 },
		"version 99 of the fleet": func(a *fleet.Assignment) { a.Schema = 99 },
	}
	y.reply = func(r fleet.ClaimRequest, a *fleet.Assignment) (*fleet.Assignment, error) {
		forged[r.Ticket.Task](a)
		return a, nil
	}
	y.start(Options{Attempt: func(_ context.Context, j Job) (Done, error) {
		t.Errorf("%s was begun", j.Task)
		return Done{Commit: j.Begin}, nil
	}})
	for i, name := range slices.Sorted(maps.Keys(forged)) {
		y.put("any", name)
		r := y.wait(i + 1)[name]
		if r.Error == nil || !strings.Contains(r.Error.Error(), name) || bridge.CodeOf(r.Error) == bridge.CodeInternal {
			t.Errorf("%s: %+v", name, r.Error)
		}
	}
}
