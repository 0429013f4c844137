package abp

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/abp/contract"
)

const (
	// verifyWithin bounds what git may take.
	verifyWithin = 20 * time.Second
	// maxDiff is how much of a diff the receipt carries; all of a longer one
	// is an artifact.
	maxDiff   = 1 << 20
	maxStatus = 256 << 10
)

// verified is what git says of a workspace.
type verified struct {
	diff, status *string
	ok           bool
}

// verify asks git, if the workspace is a repository: for the status and, if a
// tracked file differs from the index, for the diff.
func verify(ctx context.Context, git, root string) verified {
	if git == "" || !isRepository(root) {
		return verified{ok: true}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), verifyWithin)
	defer cancel()
	const rest, ours = ".", ":(exclude).agent-backplane"
	status, err := ask(ctx, git, root, "status", "--porcelain=v1", "--ignore-submodules=dirty", "--", rest, ours)
	if err != nil {
		return verified{}
	}
	diff := ""
	for line := range strings.Lines(status) {
		if len(line) > 1 && line[1] != ' ' && line[1] != '?' {
			diff, err = ask(ctx, git, root, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--", rest, ours)
			break
		}
	}
	if err != nil {
		return verified{status: &status}
	}
	return verified{diff: &diff, status: &status, ok: true}
}

// ask runs git. What the repository's configuration would have it run is
// switched off.
func ask(ctx context.Context, git, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, git, append([]string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "LC_ALL=C")
	cmd.WaitDelay = time.Second
	text, err := cmd.Output()
	return strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte{0}, nil)), "\uFFFD"), err
}

// foresee asks git as soon as the agent has said its last word: the runtime
// takes some time to end the turn. If a tool runs after all it is asked again.
func (r *run) foresee(ctx context.Context, ev bridge.Event) {
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
			early <- verify(ctx, r.door.opts.Git, r.plan.order.Root)
		}()
	case bridge.ToolStarted:
		r.forget()
	default:
	}
}

// forget waits for what git says and drops it.
func (r *run) forget() {
	if r.early != nil {
		<-r.early
		r.early = nil
	}
}

// verified is what git says at the end.
func (r *run) verified(ctx context.Context) verified {
	if r.early != nil {
		v, ok := <-r.early
		if r.early = nil; ok {
			return v
		}
	}
	return verify(ctx, r.door.opts.Git, r.plan.order.Root)
}

// isRepository looks for a repository at the root or above it.
func isRepository(root string) bool {
	for dir := root; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
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
	clean := r.door.service.Clean(*s)
	return &clean
}
