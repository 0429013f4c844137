// Package probe answers by experiment what the runtime's schemas and the
// SDK's documentation leave open: it drives the real runtime through the bare
// SDK, with the rehearsal model for the words, and writes down what happens.
// Nothing of the bridge's own agent or engine is between, since it is the
// runtime that is looked at.
//
// The command `capabilities probe` and a test call it. Each experiment gives
// facts that are the same in every run, so that a runtime which behaves
// differently is noticed.
package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
)

// Options say what to probe, and with what.
type Options struct {
	Runtime string // the native runtime's program
	Self    string // an executable that answers to supervise.Verb
	// Server is the command line of a program that calls ServeMCP.
	Server []string
	Env    []string
}

// Probe is one experiment.
type Probe struct {
	ID  string
	run func(context.Context, *rig) error
}

// patience bounds one experiment.
const patience = 2 * time.Minute

// All lists the experiments in the order of the questions.
func All() []Probe {
	return []Probe{
		{"permission-shapes", permissionShapes},
		{"permission-silence", permissionSilence},
		{"input-silence", inputSilence},
		{"shared-home", sharedHome},
		{"home-layout", homeLayout},
		{"auth-matrix", authMatrix},
		{"resume", resume},
		{"ignorable-events", ignorableEvents},
		{"pending-work", pendingWork},
		{"byok-models", byokModels},
		{"subagent-hooks", subagentHooks},
		{"redaction", redaction},
		{"abort-shell", abortShell},
		{"mcp-lifetime", mcpLifetime},
		{"retries", retries},
		{"workspace-loading", loading},
	}
}

// Run makes the experiment. Everything that it starts has ended when it
// returns.
func (p Probe) Run(ctx context.Context, o Options) (f capabilities.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dir, err := os.MkdirTemp("", "copilot-bridge-probe-")
	if err != nil {
		return f, fmt.Errorf("make a directory for the probe: %w", err)
	}
	r := &rig{opts: o, dir: dir}
	defer func() { err = errors.Join(err, r.close(), os.RemoveAll(dir)) }()
	if err := r.start(ctx); err != nil {
		return f, err
	}
	if err := p.run(ctx, r); err != nil {
		return f, fmt.Errorf("probe %s: %w", p.ID, err)
	}
	return capabilities.Finding{Probe: p.ID, Facts: slices.Clone(r.facts)}, nil
}
