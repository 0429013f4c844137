// Package copilotruntime finds the Copilot runtime and the Copilot CLI on this
// machine, or installs the versions that the bridge was built and tested
// against. It starts them only to check that they fit: running and supervising
// them is the agents' job. internal/app calls it before it builds an agent, and
// internal/cli for `setup`, `validate` and other commands.
package copilotruntime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Source says where a program was found.
type Source string

// The sources, in the order in which they are looked at.
const (
	SourceEnv       Source = "COPILOT_CLI_PATH" // the user named it
	SourceInstalled Source = "installed"        // our own pinned install
	SourcePATH      Source = "PATH"             // a compatible copilot that was there already
)

// Options says where to look and where to install.
type Options struct {
	Home    string // the bridge's home directory; required
	CLIPath string // the value of COPILOT_CLI_PATH, or ""
}

// Runtime is a program that passed its check.
type Runtime struct {
	Path    string // absolute
	Version string // what the program itself reports; not the version of its npm package
	Source  Source
	Dir     string // the install's directory, or the program's if it is not ours
	Native  bool   // the native runtime rather than the CLI, which starts and runs slower
}

// Find returns the runtime to use, installing nothing. A COPILOT_CLI_PATH
// that does not work is an error and not passed over: the user asked for it.
// Finding our own install starts no process and reads a few kilobytes.
func Find(ctx context.Context, o Options) (Runtime, error) {
	return find(ctx, o, runtimeProduct())
}

// Ensure is Find and, if there is no runtime at all, Install.
func Ensure(ctx context.Context, o Options, p Progress) (Runtime, error) {
	rt, err := Find(ctx, o)
	if bridge.CodeOf(err) == bridge.CodeNotFound {
		return Install(ctx, o, p)
	}
	return rt, err
}

// Install installs the pinned runtime unless it is there already, whatever
// else could be found. It may be called at the same time from any number of
// goroutines and processes: one installs, the others wait for it.
func Install(ctx context.Context, o Options, p Progress) (Runtime, error) {
	return install(ctx, o, runtimeProduct(), p)
}

// FindCLI returns the Copilot CLI to use, which unlike the native runtime
// speaks the agent client protocol. The order is that of Find; a
// COPILOT_CLI_PATH that names the native runtime is passed over, because it
// is right for Find.
func FindCLI(ctx context.Context, o Options) (Runtime, error) {
	return find(ctx, o, cliProduct())
}

// InstallCLI is Install for the CLI.
func InstallCLI(ctx context.Context, o Options, p Progress) (Runtime, error) {
	return install(ctx, o, cliProduct(), p)
}

func find(ctx context.Context, o Options, prod product) (Runtime, error) {
	s, err := newSite(o, prod)
	if err != nil {
		return Runtime{}, err
	}
	if o.CLIPath != "" {
		path, err := resolveNamed(o.CLIPath)
		if err != nil {
			return Runtime{}, err
		}
		if prod.usesNative || !isNative(path) {
			rt, err := s.foreign(ctx, path, SourceEnv)
			return rt, namingSetting(err)
		}
	}

	rt, err := s.installed()
	if err == nil {
		return rt, nil
	}
	var rejected []string
	if !errors.Is(err, fs.ErrNotExist) {
		rejected = append(rejected, fmt.Sprintf("the install in %s is damaged (%v)", s.dir(), err))
	}

	if path, ok := onPATH(); ok {
		rt, err := s.foreign(ctx, path, SourcePATH)
		if err == nil {
			return rt, nil
		}
		if ctx.Err() != nil {
			return Runtime{}, err
		}
		rejected = append(rejected, err.Error())
	}

	message := fmt.Sprintf("no %s was found", prod.title)
	if len(rejected) > 0 {
		message += "; " + strings.Join(rejected, "; ")
	}
	return Runtime{}, &bridge.Error{
		Code:    bridge.CodeNotFound,
		Message: message,
		Remedy:  fmt.Sprintf("Run `%s`.", prod.setup),
	}
}

// foreign describes a program that is not our own install, after checking it.
func (s site) foreign(ctx context.Context, path string, source Source) (Runtime, error) {
	version, err := s.product.verify(ctx, path)
	if err != nil {
		return Runtime{}, err
	}
	return Runtime{
		Path:    path,
		Version: version,
		Source:  source,
		Dir:     filepath.Dir(path),
		Native:  isNative(path),
	}, nil
}

// namingSetting says of a program that cannot be used who asked for it.
func namingSetting(err error) error {
	var e *bridge.Error
	if !errors.As(err, &e) || e.Code != bridge.CodeUnavailable {
		return err
	}
	return &bridge.Error{
		Code:    e.Code,
		Message: "COPILOT_CLI_PATH is set, but " + e.Message,
		Remedy: "Unset COPILOT_CLI_PATH, or let it name a Copilot runtime or CLI that works here; " +
			"without it, `copilot-bridge setup` installs one.",
		Cause: e.Cause,
	}
}

// resolveNamed makes COPILOT_CLI_PATH absolute, since what it names is started
// in other directories later. A bare name is looked up in PATH, as a shell
// would.
func resolveNamed(named string) (string, error) {
	if !strings.ContainsRune(named, filepath.Separator) && !strings.ContainsRune(named, '/') {
		if found, err := program.Find(named, os.Environ()); err == nil {
			named = found
		}
	}
	path, err := filepath.Abs(named)
	if err != nil {
		return "", unusable(named, "its absolute path cannot be found", err)
	}
	return path, nil
}

func onPATH() (string, bool) {
	path, err := program.Find("copilot", os.Environ())
	return path, err == nil
}

// isNative reports whether path is the native runtime, which is known by the
// library that it loads from its own directory.
func isNative(path string) bool {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(path), runtimeLibrary))
	return err == nil && info.Mode().IsRegular()
}
