// Package sandbox makes the operating system limit what programs can see and
// change: bubblewrap on Linux, a seatbelt profile on macOS (untried), nothing
// yet on Windows. It is the second wall, behind the guard's decision. It knows
// no policy: its callers say which files are protected or hidden. App sets it
// up, the guard uses its plans, and upkeep removes its old caches.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Mode is whether programs are confined.
type Mode string

// The modes: where it works, always or not at all, never.
const (
	Auto    Mode = "auto"
	Require Mode = "require"
	Off     Mode = "off"
)

// Wall is a sandbox that works on this machine.
type Wall struct {
	path    string // of bwrap or sandbox-exec
	name    string // with its version
	private []string
}

// Private are the parts of the system that root alone may read, to hide from
// programs that root runs: they are root inside as well.
func (w *Wall) Private() []string { return w.private }

// String names the wall for people.
func (w *Wall) String() string { return fmt.Sprintf("%s (%s)", w.name, w.path) }

// Path is the program that builds it.
func (w *Wall) Path() string { return w.path }

// Find looks for the system's sandbox and tries it. An error says why there is
// none, and how to get it.
func Find(ctx context.Context, env []string) (*Wall, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var w *Wall
	switch runtime.GOOS {
	case "linux":
		path, err := findBwrap(env)
		if err != nil {
			return nil, unavailable("bubblewrap (bwrap) is not installed", "Install it: `apt install bubblewrap`, `dnf install bubblewrap` or `apk add bubblewrap`.", err)
		}
		w = &Wall{path: path, name: "bubblewrap"}
		if version, _, err := output(ctx, env, path, "--version"); err == nil {
			w.name = strings.TrimSpace(version)
		}
	case "darwin":
		w = &Wall{path: "/usr/bin/sandbox-exec", name: "seatbelt"}
	default:
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "there is no sandbox on this system yet", Remedy: "Use Linux or macOS, or a virtual machine."}
	}
	if err := w.try(ctx, env); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		w.private = rootOnly("/etc", 3)
	}
	return w, nil
}

// findBwrap prefers the system's own: PATH may lead to places that others
// write.
func findBwrap(env []string) (path string, err error) {
	for _, name := range []string{"/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "bwrap"} {
		if path, err = program.Find(name, env); err == nil {
			return path, nil
		}
	}
	return "", err
}

// try runs a shell behind the wall. It must write where it may and not see
// what lies beside that.
func (w *Wall) try(ctx context.Context, env []string) (err error) {
	dir, remove, err := durable.Scratch("sandbox")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	inside, canary := filepath.Join(dir, "inside"), filepath.Join(dir, "canary")
	if err := errors.Join(os.Mkdir(inside, 0o700), os.WriteFile(canary, nil, 0o600)); err != nil {
		return err
	}
	c, err := program.New(program.Place{Dir: inside, Env: env}, "/bin/sh", "-c", `: > made; [ -e "$1" ] || echo confined`, "sh", canary)
	if err == nil {
		c, err = w.Wrap(c, bridge.Confinement{Write: []string{inside}})
	}
	if err != nil {
		return err
	}
	out, complaint := &program.Head{Limit: 1 << 10}, &program.Head{Limit: 1 << 10}
	exit, err := c.Run(ctx, program.RunOptions{Stdout: out, Stderr: complaint})
	if err == nil {
		err = exit.Err()
	}
	if err != nil {
		return unavailable(w.name+" does not work here: "+firstLine(complaint.String(), err),
			"See that the system lets programs make user namespaces (kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, the seccomp profile of a container); docs/guides/sandbox.md has more.", err)
	}
	if _, err := os.Stat(filepath.Join(inside, "made")); err != nil || out.String() != "confined\n" {
		return unavailable(w.name+" starts programs but does not confine them", "Report it with the system's version.", err)
	}
	return nil
}

// Wrap is the same command behind the wall.
func (w *Wall) Wrap(c program.Command, conf bridge.Confinement) (program.Command, error) {
	for _, path := range slices.Concat(conf.Write, conf.Read, conf.Hide) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return c, &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("%q cannot be confined: it is no absolute path", path)}
		}
	}
	places := sorted(conf)
	if c.Dir == "" {
		c.Dir = "/"
	}
	if c.Dir != "/" && !shown(places, c.Dir) {
		return c, invisible("the directory "+c.Dir, "Run the command in the workspace.")
	}
	if !shown(places, c.Path) {
		// It was judged by this name, so it may be run: it alone, or with the
		// packages that it is one of. The name may pass a link that is not
		// there inside.
		conf.Read = append(slices.Clone(conf.Read), belongsTo(resolved(c.Path)))
		if places = sorted(conf); !shown(places, c.Path) {
			c.Path = resolved(c.Path)
		}
		if !shown(places, c.Path) {
			return c, invisible("the program "+c.Path, "Install it where the system's programs are or in a directory of the PATH, or set sandbox: off.")
		}
	}
	home := program.Variable(c.Env, "HOME")
	if runtime.GOOS == "darwin" {
		c.Env = slices.Concat(c.Env, conf.Env)
		return c.Within(program.Outer{Path: w.path, Args: []string{"-p", seatbelt(conf.Network, places)}, Complaint: "sandbox-exec: "}), nil
	}
	c.Env = slices.Concat(slices.DeleteFunc(slices.Clone(c.Env), func(kv string) bool {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR": // they do not exist inside
			return true
		}
		return false
	}), conf.Env)
	return c.Within(program.Outer{Path: w.path, Args: bwrapArgs(conf.Network, places, home, c.Dir), Complaint: "bwrap: ", Guards: true}), nil
}

// belongsTo is the file itself, or the packages of node that it is among.
func belongsTo(file string) string {
	if at, _, found := strings.Cut(file, "/node_modules/"); found {
		return at + "/node_modules"
	}
	return file
}

// output is what a short-lived program of the user's writes.
func output(ctx context.Context, env []string, name string, args ...string) (string, program.Exit, error) {
	c, err := program.New(program.Place{Env: env}, name, args...)
	if err != nil {
		return "", program.Exit{}, err
	}
	out := &program.Head{Limit: 1 << 20}
	exit, err := c.Run(ctx, program.RunOptions{Stdout: out})
	return out.String(), exit, err
}

func firstLine(text string, err error) string {
	if line, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); line != "" {
		return line
	}
	return err.Error()
}

func unavailable(message, remedy string, cause error) error {
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: message, Remedy: remedy, Cause: cause}
}

func invisible(what, remedy string) error {
	return &bridge.Error{Code: bridge.CodeDenied, Message: what + " cannot be seen inside the sandbox", Remedy: remedy}
}
