package copilotruntime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// site is the place under the bridge's home where one product is installed:
//
//	<home>/<product>/.lock         held while installing
//	<home>/<product>/.staging-*    an install under way, or the rest of a killed one
//	<home>/<product>/<version>     a finished install, which has a manifest
//
// Only the holder of the lock makes or removes anything there, so a staging
// directory that is seen under the lock has no owner.
type site struct {
	product  product
	platform string // "" where Copilot is not made for this machine
	root     string // <home>/<product>
}

const stagingPrefix = ".staging-"

func newSite(o Options, p product) (site, error) {
	if o.Home == "" {
		return site{}, &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: "the bridge's home directory is not known",
			Remedy:  "Set COPILOT_BRIDGE_HOME.",
		}
	}
	home, err := filepath.Abs(o.Home)
	if err != nil {
		return site{}, fmt.Errorf("find the bridge's home directory: %w", err)
	}
	return site{product: p, platform: hostPlatform(), root: filepath.Join(home, p.folder)}, nil
}

func (s site) dir() string         { return filepath.Join(s.root, s.product.version) }
func (s site) lockPath() string    { return filepath.Join(s.root, ".lock") }
func (s site) packageName() string { return s.product.npmName + "-" + s.platform }

// packageDir is where npm puts the package, relative to the install and
// slash-separated.
func (s site) packageDir() string { return path.Join("node_modules", s.packageName()) }

// programPath is the product's program, in the form of packageDir.
func (s site) programPath() string {
	return path.Join(s.packageDir(), s.product.program(s.platform))
}

// requiredPaths are the program and the files it cannot start without, in the
// form of packageDir.
func (s site) requiredPaths() []string {
	required := []string{s.programPath()}
	for _, name := range s.product.needs(s.platform) {
		required = append(required, path.Join(s.packageDir(), name))
	}
	return required
}

// lockFiles returns the carried package.json and package-lock.json, or false
// if none is carried for this platform.
func (s site) lockFiles() (packageJSON, packageLock []byte, ok bool) {
	folder := path.Join("lock", s.product.folder, s.platform)
	packageJSON, err := locks.ReadFile(path.Join(folder, "package.json"))
	if err != nil {
		return nil, nil, false
	}
	packageLock, err = locks.ReadFile(path.Join(folder, "package-lock.json"))
	return packageJSON, packageLock, err == nil
}

// installed returns the finished install. The error is fs.ErrNotExist if
// there is none, and otherwise says how it is damaged.
func (s site) installed() (Runtime, error) {
	if s.platform == "" {
		return Runtime{}, fs.ErrNotExist
	}
	dir := s.dir()
	m, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Lstat(dir); statErr == nil {
			return Runtime{}, errors.New("it has no manifest")
		}
	}
	if err != nil {
		return Runtime{}, err
	}
	if m.Package != s.packageName() || m.Version != s.product.version {
		return Runtime{}, fmt.Errorf("it holds %s %s instead of %s %s",
			m.Package, m.Version, s.packageName(), s.product.version)
	}
	for _, name := range s.requiredPaths() {
		if !m.lists(name) {
			return Runtime{}, fmt.Errorf("its manifest does not list %s", name)
		}
	}
	if err := m.matches(dir); err != nil {
		return Runtime{}, err
	}
	return s.describe(m)
}

// describe returns the Runtime for an install whose manifest holds.
func (s site) describe(m manifest) (Runtime, error) {
	program := filepath.Join(s.dir(), filepath.FromSlash(s.programPath()))
	info, err := os.Stat(program)
	if err != nil {
		return Runtime{}, err
	}
	if !executable(info) {
		return Runtime{}, fmt.Errorf("%s is not executable", s.programPath())
	}
	return Runtime{
		Path:    program,
		Version: m.Reports,
		Source:  SourceInstalled,
		Dir:     s.dir(),
		Native:  s.product.usesNative,
	}, nil
}
