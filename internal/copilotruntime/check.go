package copilotruntime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Status is what a runtime says about itself.
type Status struct {
	Version  string
	Protocol int
}

const (
	handshakeBound = 10 * time.Second
	// versionBound is longer: the CLI unpacks itself when it first runs.
	versionBound = time.Minute
	// leaveBound is for a runtime to go by itself once its input is closed.
	leaveBound = 2 * time.Second
	// pipeGrace is how long the output of a dead program may be held open by
	// something that it started.
	pipeGrace = 2 * time.Second
)

// Check starts the program at path, which may be the native runtime or the
// CLI, shakes hands with it and ends it again. Nothing stays behind, neither
// a process nor a file. A program that is no runtime, or one that speaks
// another protocol, is a *bridge.Error with CodeUnavailable.
//
// The native runtime takes some ten milliseconds, the CLI about a second.
func Check(ctx context.Context, path string) (Status, error) {
	return check(ctx, path, handshakeBound)
}

func check(ctx context.Context, path string, bound time.Duration) (Status, error) {
	var status Status
	err := probe(ctx, path, bound, func(ctx context.Context, c command) (err error) {
		status, err = ask(ctx, c)
		return err
	})
	if err != nil {
		return Status{}, err
	}
	if status.Protocol != Protocol {
		return Status{}, unusable(path, fmt.Sprintf("it speaks protocol %d and this program needs %d (its version is %q)",
			status.Protocol, Protocol, status.Version), nil)
	}
	return status, nil
}

// command returns the command to check, with the given arguments.
type command func(args ...string) (program.Command, error)

// ask starts the runtime, shakes hands and waits until it is gone.
func ask(ctx context.Context, runtime command) (Status, error) {
	c, err := runtime("--headless", "--no-auto-update", "--stdio", "--no-auto-login")
	if err != nil {
		return Status{}, err
	}
	p, err := c.Pipe(nil)
	if err != nil {
		return Status{}, notStarted(err)
	}
	stderr := &program.Tail{Limit: 4 << 10}
	var copied sync.WaitGroup
	copied.Go(func() { _, _ = io.Copy(stderr, p.Err) }) // its end, or the deadline below, ends it
	// A read of its output ends with ctx, even if another process holds the pipe.
	stop := context.AfterFunc(ctx, func() { _ = p.Out.SetReadDeadline(time.Now()) })
	defer func() {
		stop()
		_, _ = p.Out.Close(), p.Err.Close() // they were only read
	}()

	status, askErr := handshake(p.In, p.Out)
	late := ctx.Err()
	_ = p.In.Close() // tells it to go; an error means that it has ended
	grace := leaveBound
	if askErr != nil && !errors.Is(askErr, errEnded) {
		grace = 0 // it is not one of ours, so it may not know to go
	}
	leave := time.NewTimer(grace)
	defer leave.Stop()
	var endErr error
	select {
	case <-p.Done():
	case <-leave.C:
		endErr = p.Kill()
	case <-ctx.Done():
		endErr = p.Kill()
	}
	_ = p.Err.SetReadDeadline(time.Now().Add(pipeGrace)) // something may hold the other end
	copied.Wait()
	if endErr != nil {
		return Status{}, endErr
	}
	var exit program.Exit
	exit.Code, exit.Signal = p.Exit()

	switch {
	case askErr == nil:
		return status, nil
	case late != nil:
		return Status{}, late
	case errors.Is(askErr, errEnded):
		return Status{}, fmt.Errorf("%w%s", errEnded, quoted(joinNonEmpty(exit.Err(), stderr.String())))
	default:
		return Status{}, askErr
	}
}

// notStarted words the error of a program that the system refuses to start;
// of one made for another system it may well say that there is no such file.
func notStarted(err error) error {
	return fmt.Errorf("it could not be started, perhaps because it is made for another system: %w", err)
}

func joinNonEmpty(err error, said string) string {
	if err == nil {
		return said
	}
	return strings.TrimSpace(err.Error() + "\n" + said)
}

// versionLine is the CLI's answer to --version. The whole of it is asked for
// because other products have a program called copilot too.
var versionLine = regexp.MustCompile(`(?m)^GitHub Copilot CLI v?(\d+\.\d+\.\d+[0-9A-Za-z.+-]*?)\.?\r?$`)

// cliVersion asks the Copilot CLI at path for its version.
func cliVersion(ctx context.Context, path string) (string, error) {
	var version string
	err := probe(ctx, path, versionBound, func(ctx context.Context, cli command) error {
		c, err := cli("--version")
		if err != nil {
			return err
		}
		stdout, stderr := &program.Tail{Limit: 4 << 10}, &program.Tail{Limit: 4 << 10}
		exit, err := c.Run(ctx, program.RunOptions{Stdout: stdout, Stderr: stderr})
		if err == nil {
			err = exit.Err()
		}
		if err != nil {
			return fmt.Errorf("it does not tell its version%s", quoted(joinNonEmpty(err, stderr.String())))
		}
		found := versionLine.FindStringSubmatch(stdout.String())
		if found == nil {
			return fmt.Errorf("it is not GitHub's Copilot CLI; to --version it answered %q", excerpt([]byte(stdout.String())))
		}
		version = found[1]
		return nil
	})
	return version, err
}

// probe prepares the program at path, in a directory and an environment that
// hold nothing of the user's, for use to start and to end, and words the
// errors. The context that use gets ends after bound.
func probe(ctx context.Context, path string, bound time.Duration, use func(context.Context, command) error) (err error) {
	path, err = filepath.Abs(path) // it is started in another directory
	if err != nil {
		return unusable(path, "its absolute path cannot be found", err)
	}
	if err := runnable(path); err != nil {
		return err
	}
	home, remove, err := durable.Scratch("check")
	if err != nil {
		return fmt.Errorf("make a directory to check %s in: %w", path, err)
	}
	defer func() { err = errors.Join(err, remove()) }()

	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	place := program.Place{Dir: home, Env: append(checkEnv(os.Environ()), "COPILOT_HOME="+home)}
	err = use(bounded, func(args ...string) (program.Command, error) {
		if strings.HasSuffix(path, ".js") { // the SDK starts these through node too
			return program.New(place, "node", append([]string{path}, args...)...)
		}
		return program.New(place, path, args...)
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &bridge.Error{
			Code:    bridge.CodeOf(ctx.Err()),
			Message: fmt.Sprintf("the check of %s was stopped", path),
			Cause:   context.Cause(ctx),
		}
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		return unusable(path, fmt.Sprintf("it did not answer within %s", bound), nil)
	default:
		return unusable(path, err.Error(), nil)
	}
}

// runnable finds what can be said about path without starting it.
func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unusable(path, "there is no such file", nil)
	case err != nil:
		return unusable(path, "it cannot be looked at", err)
	case info.IsDir():
		return unusable(path, "it is a directory", nil)
	case !info.Mode().IsRegular():
		return unusable(path, "it is not a file", nil)
	case !executable(info) && !strings.HasSuffix(path, ".js"):
		return unusable(path, "it is not executable", nil)
	}
	return nil
}

func unusable(path, why string, cause error) *bridge.Error {
	return &bridge.Error{
		Code:    bridge.CodeUnavailable,
		Message: fmt.Sprintf("%s cannot be used to run Copilot: %s", path, why),
		Remedy: "If COPILOT_CLI_PATH names it, unset that or let it name a Copilot runtime or CLI that works here; " +
			"`copilot-bridge setup` installs one.",
		Cause: cause,
	}
}

// checkEnv drops secrets, and our own settings, some of which would keep a
// runtime from starting.
func checkEnv(env []string) []string {
	return filterEnv(env, func(name string) bool {
		return strings.HasPrefix(name, "COPILOT_") || slices.ContainsFunc([]string{"TOKEN", "SECRET", "PASSWORD", "API_KEY", "CREDENTIAL"}, func(secret string) bool { return strings.Contains(name, secret) })
	})
}
