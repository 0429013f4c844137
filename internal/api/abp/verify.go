package abp

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

const (
	// verifyWithin bounds what git may take.
	verifyWithin = 20 * time.Second
	// maxDiff bounds the diff in a receipt; a longer one is an artifact.
	maxDiff   = 1 << 20
	maxStatus = 256 << 10
)

// verified is what git says of a workspace.
type verified struct {
	diff, status *string
	ok           bool
}

// verify asks git for the status and, if a tracked file differs from the index, for
// the diff. Without a repository there is neither.
func (d *door) verify(ctx context.Context, root string) verified {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), verifyWithin)
	defer cancel()
	v, err := d.askGit(ctx, root)
	if slices.Contains([]bridge.Code{bridge.CodeNotFound, bridge.CodeUnavailable, bridge.CodeUnsupported}, bridge.CodeOf(err)) {
		return verified{ok: true} // no repository, or no git for it
	}
	if v.ok = err == nil; !v.ok {
		d.opts.Logger.Warn("the workspace was not verified", "error", err)
	}
	return v
}

func (d *door) askGit(ctx context.Context, root string) (v verified, err error) {
	scratch, remove, err := durable.Scratch("git")
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	repo, err := git.Open(ctx, git.Options{Dir: root, Environ: d.opts.Environ, Scratch: scratch, Confine: d.opts.Confine})
	if err != nil {
		return v, err
	}
	for _, text := range repo.Warnings {
		d.opts.Logger.Warn("git", "warning", text)
	}
	index, err := repo.CopyIndex(scratch)
	if err != nil {
		return v, err
	}
	ask := func(args ...string) (string, error) {
		args = append(args, "--ignore-submodules=dirty", "--", ":(top,literal)"+repo.Prefix, ":(top,literal,exclude)"+path.Join(repo.Prefix, ".agent-backplane"))
		text, _, err := repo.Run(ctx, git.Call{Index: index, Args: args})
		return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD"), err
	}
	status, err := ask("status", "--porcelain=v1")
	if err != nil {
		return v, err
	}
	v.status = &status
	diff := ""
	for line := range strings.Lines(status) {
		if len(line) > 1 && line[1] != ' ' && line[1] != '?' {
			if diff, err = ask("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short"); err != nil {
				return v, err
			}
			break
		}
	}
	v.diff = &diff
	return v, nil
}

// verifyEarly asks git after the agent's last message, while the runtime ends the
// turn. If another tool runs, git is asked again.
func (r *run) verifyEarly(ctx context.Context, ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.MessageDone:
		if e.AgentID != "" || len(e.Calls) > 0 || r.early != nil || len(r.calls) > 0 {
			return
		}
		early := make(chan verified, 1)
		r.early = early
		go func() {
			defer r.door.survive("verifying")
			defer close(early)
			early <- r.door.verify(ctx, r.plan.order.Root)
		}()
	case bridge.ToolStarted:
		r.forgetEarly()
	default:
	}
}

// forgetEarly waits for git and drops its answer.
func (r *run) forgetEarly() {
	if r.early != nil {
		<-r.early
		r.early = nil
	}
}

// verified is git's answer at the end.
func (r *run) verified(ctx context.Context) verified {
	if r.early != nil {
		v, ok := <-r.early
		if r.early = nil; ok {
			return v
		}
	}
	return r.door.verify(ctx, r.plan.order.Root)
}

// verification is what the receipt says of it.
func (r *run) verification(v verified) contract.Verification {
	out := contract.Verification{GitStatus: r.cleaned(v.status), GitDiff: r.cleaned(v.diff), HarnessOK: v.ok && r.outcome != contract.Failed}
	if s := out.GitStatus; s != nil && len(*s) > maxStatus {
		short := clip(*s, maxStatus) + "\n[the rest is left out]\n"
		out.GitStatus = &short
	}
	if d := out.GitDiff; d != nil && len(*d) > maxDiff {
		rel, err := keep(r.plan.order.Root, string(r.runID), "git-diff", r.door.opts.Now(), *d)
		if err != nil {
			r.door.opts.Logger.Warn("the diff was not kept", "error", err)
			out.HarnessOK = false
			return out
		}
		r.artifacts = append(r.artifacts, contract.Artifact{Kind: "patch", Path: rel})
		short := clip(*d, maxDiff) + "\n[all of it is in " + rel + "]\n"
		out.GitDiff = &short
	}
	return out
}

func (r *run) cleaned(s *string) *string {
	if s == nil {
		return nil
	}
	return new(r.door.service.Clean(*s))
}
