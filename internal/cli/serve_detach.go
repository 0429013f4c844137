package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	programs "github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/serves"
)

// readyWithin bounds the wait for a server in the background. The first one may
// have to install the runtime.
const readyWithin = 10 * time.Minute

// serveDetached starts this command again in the background, and returns when it answers.
func (p *program) serveDetached(ctx context.Context, c call, dir string) (err error) {
	if err := p.requireExecutable(); err != nil {
		return err
	}
	log, err := serves.NewLog(c.cfg.Home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	args, env := p.detachedArgs(c, dir, log.Name())
	cmd, err := programs.New(programs.Place{Dir: p.env.Dir, Env: env}, p.env.Executable, args...)
	if err != nil {
		return err
	}
	done := sync.OnceFunc(p.progress().Begin("starting the server"))
	defer done()
	d, err := cmd.Detach(log)
	if err != nil {
		return err
	}
	s, err := p.awaitServe(ctx, c.cfg, d, log.Name())
	if err != nil {
		return err
	}
	done()
	if p.json {
		return p.printJSON(readyLine{URL: s.URL, RPC: s.RPC, Token: s.Token, PID: s.PID})
	}
	p.console.Ready(s.URL)
	for line := range strings.Lines(view.Fields([2]string{"workspace", p.short(s.Workspace)}, [2]string{"tool bus", s.RPC}, [2]string{"process", fmt.Sprint(s.PID)},
		[2]string{"log", p.short(s.Log)}, [2]string{"stop with", fmt.Sprintf("copilot-bridge stop %d", s.PID)})) {
		p.console.Dim("  " + strings.TrimSuffix(line, "\n"))
	}
	return nil
}

// detachedArgs are the arguments and the environment of the server in the
// background. A token goes into the environment, which other users cannot see.
func (p *program) detachedArgs(c call, dir, log string) (args, env []string) {
	args, env = []string{"serve", "--workspace=" + dir, "--log=" + log}, slices.Clone(p.env.Environ)
	c.cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "detach", "json", "workspace", "log":
		case "token":
			env = append(env, "COPILOT_BRIDGE_TOKEN="+f.Value.String())
		default:
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args, env
}

// awaitServe waits until the server in the background answers. One that does not
// come to it is ended.
func (p *program) awaitServe(ctx context.Context, cfg *config.Config, d *programs.Detached, log string) (serves.Serve, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, &bridge.Error{Code: bridge.CodeTimeout,
		Message: fmt.Sprintf("the server was not ready within %s", readyWithin), Remedy: "see its log: " + p.short(log)})
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		list, err := serves.List(cfg.Home)
		if err != nil {
			return serves.Serve{}, errors.Join(err, d.Terminate())
		}
		if i := slices.IndexFunc(list, func(s serves.Serve) bool { return s.PID == d.PID() }); i >= 0 {
			return list[i], nil
		}
		if code, ended := d.Exit(); ended {
			told, _, _ := lastLines(log, 20)   // without them the log is named
			if strings.TrimSpace(told) == "" { // it could not be written, perhaps
				return serves.Serve{}, &exitError{code: max(code, exitFailed), err: &bridge.Error{Code: bridge.CodeUnavailable,
					Message: "the server has ended before it was ready, and its log " + p.short(log) + " is empty", Remedy: "run it without --detach to see why"}}
			}
			return serves.Serve{}, &exitError{code: max(code, exitFailed), err: &bridge.Error{Code: bridge.CodeUnavailable,
				Message: "the server has ended before it was ready:\n" + strings.TrimSpace(told), Remedy: "mend what it says and start it again; its log is " + p.short(log)}}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return serves.Serve{}, errors.Join(context.Cause(ctx), d.Terminate())
		}
	}
}

// lastLines are the last lines of a file, and how long the file was.
func lastLines(file string, n int) (text string, size int64, err error) {
	data, err := os.ReadFile(file)
	lines := slices.Collect(strings.Lines(string(data)))
	return strings.Join(lines[max(0, len(lines)-n):], ""), int64(len(data)), err
}
