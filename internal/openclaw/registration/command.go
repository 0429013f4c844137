package registration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task/group"
)

const (
	// commandLimit bounds one call of OpenClaw's command, which takes half a
	// minute on a slow machine.
	commandLimit = 5 * time.Minute
	commandGrace = 5 * time.Second
	maxOutput    = 64 << 10
	shownLines   = 12
)

// env returns a variable of OpenClaw's environment.
func (r *Registrar) env(name string) string {
	value := ""
	for _, kv := range r.opts.Environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// program is the path of OpenClaw's command, "" if there is none.
func (r *Registrar) program() string {
	names := []string{"openclaw"}
	if runtime.GOOS == "windows" {
		names = []string{"openclaw.exe", "openclaw.cmd"}
	}
	for _, dir := range filepath.SplitList(r.env("PATH")) {
		for _, name := range names {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if err == nil && filepath.IsAbs(path) && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
				return path
			}
		}
	}
	return ""
}

// call runs OpenClaw's command. What it writes is shown only if it fails.
func (r *Registrar) call(ctx context.Context, args ...string) error {
	line := shellLine(args)
	r.opts.Progress(line)
	ctx, cancel := context.WithTimeoutCause(ctx, commandLimit, &bridge.Error{Code: bridge.CodeTimeout,
		Message: fmt.Sprintf("`%s` did not end in %s", line, commandLimit), Remedy: "see why with `openclaw doctor`, or use --method edit"})
	defer cancel()
	out, err := os.CreateTemp("", "copilot-bridge-openclaw-*")
	if err != nil {
		return fmt.Errorf("run `%s`: %w", line, err)
	}
	if runtime.GOOS != "windows" { // there a file that is open stays
		_ = os.Remove(out.Name())
	}
	defer func() { _, _ = out.Close(), os.Remove(out.Name()) }()
	program := r.program()
	cmd := &exec.Cmd{Path: program, Args: append([]string{program}, args...), Env: append(slices.Clone(r.opts.Environ), "NO_COLOR=1"), Stdout: out, Stderr: out}
	if r.opts.Token != "" {
		cmd.Env = append(cmd.Env, "OPENCLAW_GATEWAY_TOKEN="+r.opts.Token)
	}
	if r.opts.Port != 0 {
		cmd.Env = append(cmd.Env, "OPENCLAW_GATEWAY_PORT="+strconv.Itoa(r.opts.Port))
	}
	g, err := group.Start(cmd, nil)
	if err == nil {
		select {
		case <-g.Done():
			err = g.Err()
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), g.End(context.WithoutCancel(ctx), commandGrace))
		}
	}
	if err != nil {
		return r.failed(line, out, err)
	}
	return nil
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// failed says what the command wrote, without secrets.
func (r *Registrar) failed(line string, out *os.File, err error) error {
	text := make([]byte, maxOutput)
	n, readErr := out.ReadAt(text, 0)
	if readErr != nil && !errors.Is(readErr, io.EOF) {
		n = 0
	}
	said, _ := r.redact.String(colours.ReplaceAllString(string(text[:n]), ""))
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if skipped := len(lines) - shownLines; skipped > 0 {
		lines = append([]string{fmt.Sprintf("(%d lines more)", skipped)}, lines[skipped:]...)
	}
	e := &bridge.Error{Code: bridge.CodeConflict, Message: fmt.Sprintf("`%s` failed (%s):\n%s", line, err, strings.Join(lines, "\n")),
		Remedy: "do what it says, or let the configuration be edited instead with --method edit"}
	switch lower := strings.ToLower(said); {
	case strings.Contains(lower, "unknown option") || strings.Contains(lower, "unknown command") || strings.Contains(lower, "unknown argument"):
		e.Code, e.Remedy = bridge.CodeUnsupported, "this OpenClaw is too old for it: update it (`openclaw update`), or use --method edit"
	case strings.Contains(lower, "unauthorized") || strings.Contains(lower, "token_mismatch") || strings.Contains(lower, "token mismatch"):
		e.Remedy = "its gateway runs and wants its token: set OPENCLAW_GATEWAY_TOKEN"
	}
	return e
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// shellLine is a call of the command as one would type it.
func shellLine(args []string) string {
	line := "openclaw"
	for _, a := range args {
		if !plainWord.MatchString(a) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		line += " " + a
	}
	return line
}
