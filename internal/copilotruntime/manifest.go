package copilotruntime

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

const (
	manifestName   = "manifest.json"
	manifestFormat = 1
	manifestLimit  = 1 << 20
)

// manifest is the last file an install writes. An install without one, or
// that no longer matches it, is not used. It guards against installs that
// were cut short or eaten by a cleaner, not against an attacker, who could
// write the manifest as well.
type manifest struct {
	Format  int            `json:"format"`
	Package string         `json:"package"`
	Version string         `json:"version"` // of the npm package
	Reports string         `json:"reports"` // the version that the program reports
	Files   []manifestFile `json:"files"`
}

type manifestFile struct {
	Path string `json:"path"` // slash-separated, relative to the install
	Size int64  `json:"size"`
}

// decodeManifest accepts only manifests that are safe to act on: every path
// in the result stays inside the install's directory.
func decodeManifest(data []byte) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return manifest{}, fmt.Errorf("its manifest cannot be read: %w", err)
	}
	switch {
	case m.Format != manifestFormat:
		return manifest{}, fmt.Errorf("its manifest has format %d instead of %d", m.Format, manifestFormat)
	case m.Package == "" || m.Version == "" || m.Reports == "":
		return manifest{}, errors.New("its manifest does not say what is installed")
	case len(m.Files) == 0:
		return manifest{}, errors.New("its manifest lists no files")
	}
	seen := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) || path.Clean(f.Path) != f.Path || f.Size < 0 {
			return manifest{}, fmt.Errorf("its manifest has a wrong entry %q", f.Path)
		}
		if seen[f.Path] {
			return manifest{}, fmt.Errorf("its manifest lists %q twice", f.Path)
		}
		seen[f.Path] = true
	}
	return m, nil
}

func readManifest(dir string) (m manifest, err error) {
	file, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return manifest{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err := io.ReadAll(io.LimitReader(file, manifestLimit))
	if err != nil {
		return manifest{}, err
	}
	return decodeManifest(data)
}

// writeManifest records every regular file under dir/packageDir.
func writeManifest(dir, packageDir string, m manifest) error {
	m.Format = manifestFormat
	m.Files = nil
	err := filepath.WalkDir(filepath.Join(dir, packageDir), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, manifestFile{Path: filepath.ToSlash(relative), Size: info.Size()})
		return nil
	})
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, manifestName), append(data, '\n'), 0o600)
}

// matches compares the manifest with the files under dir by their sizes: that
// takes microseconds where hashing would take a good part of a second.
func (m manifest) matches(dir string) error {
	for _, f := range m.Files {
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(f.Path)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// Not wrapped: a damaged install is not a missing one.
			return fmt.Errorf("%s is missing", f.Path)
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is no longer a file", f.Path)
		case info.Size() != f.Size:
			return fmt.Errorf("%s has %d bytes instead of %d", f.Path, info.Size(), f.Size)
		}
	}
	return nil
}

func (m manifest) lists(name string) bool {
	return slices.ContainsFunc(m.Files, func(f manifestFile) bool { return f.Path == name })
}

// executable reports whether the mode lets anyone run the file; Windows keeps
// no such mode.
func executable(info fs.FileInfo) bool {
	return runtime.GOOS == "windows" || info.Mode().Perm()&0o111 != 0
}
