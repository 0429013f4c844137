package worker

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
)

// receive takes the commit on which the task begins into the mirror.
func (c *claim) receive(ctx context.Context, m *bundle.Mirror) error {
	ctx, cancel := context.WithTimeout(ctx, transferBound)
	defer cancel()
	expect := bundle.Expect{Name: c.Bundle.Object, Commit: c.Begin}
	if c.Bundle.Object == "" {
		return m.Receive(ctx, nil, c.Bundle, expect)
	}
	r, err := c.w.store.read(ctx, c.Bundle.Object)
	if err != nil {
		return err
	}
	err = m.Receive(ctx, r, c.Bundle, expect)
	c.w.store.remove(c.Bundle.Object)
	return err
}

// pack puts the result into the worker's bucket. The mirror keeps it too: what
// builds on it need not come from the coordinator.
func (c *claim) pack(ctx context.Context, m *bundle.Mirror, file, commit string) (fleet.Bundle, error) {
	b, err := bundle.Make(ctx, m.Repo, file, c.Claim, commit, []string{c.Begin})
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
