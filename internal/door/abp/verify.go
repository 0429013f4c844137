package abp

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/door/abp/contract"
)

const (
	// verifyWithin bounds what git may take.
	verifyWithin = 20 * time.Second
	// maxDiff is how much of a diff the receipt carries; all of a longer one
	// is an artifact.
	maxDiff = 1 << 20
)

// verified is what git says of a workspace.
type verified struct {
	diff, status *string
	ok           bool
}

// verify asks git, if the workspace is a repository. Both questions are put at
// once. What the repository's configuration would have git run is switched
// off.
func verify(ctx context.Context, git, root string) verified {
	if git == "" || !isRepository(root) {
		return verified{ok: true}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), verifyWithin)
	defer cancel()
	out := verified{}
	var wg sync.WaitGroup
	ask := func(to **string, args ...string) {
		wg.Go(func() {
			cmd := exec.CommandContext(ctx, git, append([]string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false"}, args...)...)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "LC_ALL=C")
			cmd.WaitDelay = time.Second
			if text, err := cmd.Output(); err == nil {
				s := strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte{0}, nil)), "\uFFFD")
				*to = &s
			}
		})
	}
	const rest, ours = ".", ":(exclude).agent-backplane"
	ask(&out.diff, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--", rest, ours)
	ask(&out.status, "status", "--porcelain=v1", "--ignore-submodules=dirty", "--", rest, ours)
	wg.Wait()
	out.ok = out.diff != nil && out.status != nil
	return out
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
