package copilotruntime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

const (
	// installBound is for slow lines: 15 minutes are 60 kB/s for the runtime.
	installBound = 15 * time.Minute
	// quietLockWait is how long we wait for another install before saying so.
	quietLockWait = 250 * time.Millisecond
)

func install(ctx context.Context, o Options, prod product, p Progress) (Runtime, error) {
	s, err := newSite(o, prod)
	if err != nil {
		return Runtime{}, err
	}
	return s.install(ctx, p)
}

func (s site) install(ctx context.Context, p Progress) (rt Runtime, err error) {
	if s.platform == "" {
		return Runtime{}, &bridge.Error{
			Code:    bridge.CodeUnsupported,
			Message: fmt.Sprintf("there is no %s for this system", s.product.title),
			Remedy:  "Set COPILOT_CLI_PATH to a Copilot program that runs here.",
		}
	}
	ctx, cancel := context.WithTimeout(ctx, installBound)
	defer cancel()

	unlock, err := s.lock(ctx, p)
	if err != nil {
		return Runtime{}, s.failed(ctx, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	// The previous holder of the lock may have done the work.
	if rt, err := s.installed(); err == nil {
		return rt, nil
	}

	npm, err := findNPM(s.product)
	if err != nil {
		return Runtime{}, err
	}
	if err := s.clearStaging(); err != nil {
		p.report(Step{Text: fmt.Sprintf("a leftover of an earlier install could not be removed: %v", err)})
	}
	staging, err := os.MkdirTemp(s.root, stagingPrefix)
	if err != nil {
		return Runtime{}, s.failed(ctx, err)
	}
	// After the rename below there is nothing at this path.
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()

	if err := s.fill(ctx, staging, npm, p); err != nil {
		return Runtime{}, s.failed(ctx, err)
	}
	if err := s.publish(staging); err != nil {
		return Runtime{}, s.failed(ctx, err)
	}
	rt, err = s.installed()
	if err != nil {
		return Runtime{}, s.failed(ctx, err)
	}
	p.report(Step{Text: fmt.Sprintf("%s %s is installed", s.product.title, s.product.version)})
	return rt, nil
}

// lock takes the site's lock and says so if another install has it.
func (s site) lock(ctx context.Context, p Progress) (unlock func() error, err error) {
	quiet, cancel := context.WithTimeout(ctx, quietLockWait)
	defer cancel()
	unlock, err = durable.Lock(quiet, s.lockPath())
	if err == nil || quiet.Err() == nil || ctx.Err() != nil {
		return unlock, err
	}
	p.report(Step{Text: fmt.Sprintf("another copilot-bridge is installing the %s; waiting for it", s.product.title)})
	return durable.Lock(ctx, s.lockPath())
}

// fill makes a complete install in the staging directory. The manifest comes
// last, so whatever was cut short has none.
func (s site) fill(ctx context.Context, staging, npm string, p Progress) error {
	if err := s.fetch(ctx, staging, npm, p); err != nil {
		return err
	}
	for _, name := range s.requiredPaths() {
		info, err := os.Stat(filepath.Join(staging, filepath.FromSlash(name)))
		switch {
		case err != nil:
			return fmt.Errorf("npm reported success, but the package is incomplete: %w", err)
		case name == s.programPath() && !executable(info):
			return fmt.Errorf("npm reported success, but %s is not executable", name)
		}
	}
	p.report(Step{Text: fmt.Sprintf("checking that the %s runs", s.product.title)})
	reports, err := s.product.verify(ctx, filepath.Join(staging, filepath.FromSlash(s.programPath())))
	if err != nil {
		return err
	}
	return writeManifest(staging, filepath.FromSlash(s.packageDir()), manifest{
		Package: s.packageName(),
		Version: s.product.version,
		Reports: reports,
	})
}

// publish gives a complete install its name, in one step. A damaged install
// of that name is moved out of the way first rather than changed in place: a
// program that still runs from it keeps its files open.
func (s site) publish(staging string) error {
	aside, err := os.MkdirTemp(s.root, stagingPrefix)
	if err == nil {
		err = os.Rename(s.dir(), filepath.Join(aside, "damaged"))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(staging, s.dir())
	}
	return errors.Join(err, os.RemoveAll(aside))
}

// clearStaging removes what killed installs left; the caller holds the lock.
func (s site) clearStaging() error {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), stagingPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.root, entry.Name())))
		}
	}
	return err
}

// failed makes err one that a person can act on, unless it is already.
func (s site) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &bridge.Error{
			Code:    bridge.CodeOf(ctx.Err()),
			Message: fmt.Sprintf("the install of the %s was stopped; nothing was changed", s.product.title),
			Remedy:  fmt.Sprintf("Run `%s` to try again.", s.product.setup),
			Cause:   context.Cause(ctx),
		}
	}
	var known *bridge.Error
	if errors.As(err, &known) {
		return err
	}
	return &bridge.Error{
		Code:    bridge.CodeUnavailable,
		Message: fmt.Sprintf("the %s could not be installed in %s", s.product.title, s.root),
		Remedy:  fmt.Sprintf("See that the directory can be written and the disk is not full, then run `%s`.", s.product.setup),
		Cause:   err,
	}
}
