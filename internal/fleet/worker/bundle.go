package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
)

// receive takes the commit on which the task begins into the mirror. Of tasks that
// begin with the same one, only the first fetches it. The coordinator removes the
// object: it may be for several claims.
func (c *claim) receive(ctx context.Context, m *bundle.Mirror) error {
	ctx, cancel := context.WithTimeout(ctx, transferBound)
	defer cancel()
	has := func() bool { return slices.Contains(c.w.root.mirrors.Have(c.Repo), c.Begin) }
	b := c.Bundle
	if !has() {
		unlock, err := c.w.root.lockMirror(ctx, c.Repo)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if has() {
		b = fleet.Bundle{}
	}
	expect := bundle.Expect{Name: b.Object, Commit: c.Begin}
	if b.Object == "" {
		return m.Receive(ctx, nil, b, expect)
	}
	r, err := c.w.store.read(ctx, b.Object)
	if err != nil {
		return err
	}
	return m.Receive(ctx, r, b, expect)
}

// pack puts the result into the worker's bucket. The mirror keeps it too: what
// builds on it need not come from the coordinator.
func (c *claim) pack(ctx context.Context, m *bundle.Mirror, commit string) (b fleet.Bundle, err error) {
	file, remove, err := c.w.root.result(c.Claim)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	b, err = bundle.Make(ctx, m.Repo, file, c.Claim, commit, []string{c.Begin})
	if err == nil && c.Limits.BundleBytes > 0 && b.Size > c.Limits.BundleBytes {
		err = &bridge.Error{Code: bridge.CodeBudget, Message: "what the task has changed is larger than the coordinator takes"}
	}
	if err == nil {
		err = m.Keep(commit)
	}
	if err == nil && b.Object != "" {
		err = c.w.store.put(ctx, b.Object, file)
	}
	return b, err
}

// full says whether a disk is full, as the system or git says it.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || strings.Contains(err.Error(), "No space left on device")
}
