package registration

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
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
	path, err := program.Find("openclaw", r.opts.Environ)
	if err != nil {
		return ""
	}
	return path
}

// call runs OpenClaw's command. What it writes is shown only if it fails.
func (r *Registrar) call(ctx context.Context, args ...string) error {
	line := shellLine(args)
	r.opts.Progress(line)
	ctx, cancel := context.WithTimeoutCause(ctx, commandLimit, &bridge.Error{Code: bridge.CodeTimeout,
		Message: fmt.Sprintf("`%s` did not end in %s", line, commandLimit), Remedy: "see why with `openclaw doctor`, or use --method edit"})
	defer cancel()
	place := program.Place{Env: append(slices.Clone(r.opts.Environ), "NO_COLOR=1")}
	if r.opts.Token != "" {
		place.Env = append(place.Env, "OPENCLAW_GATEWAY_TOKEN="+r.opts.Token)
	}
	if r.opts.Port != 0 {
		place.Env = append(place.Env, "OPENCLAW_GATEWAY_PORT="+strconv.Itoa(r.opts.Port))
	}
	c, err := program.New(place, "openclaw", args...)
	if err != nil {
		return err
	}
	out := &program.Tail{Limit: maxOutput}
	exit, err := c.Run(ctx, program.RunOptions{Stdout: out, Stderr: out, Grace: commandGrace})
	switch {
	case ctx.Err() != nil:
		return err
	case err == nil && exit.Code == 0:
		return nil
	case err == nil:
		err = exit.Err()
	}
	return r.failed(line, out.String(), err)
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// failed says what the command wrote, without secrets.
func (r *Registrar) failed(line, out string, err error) error {
	said, _ := r.redact.String(colours.ReplaceAllString(out, ""))
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
