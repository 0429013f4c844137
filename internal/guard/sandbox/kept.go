package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// workspaceSuffix is what the file beside a cache has in its name that says
// whose it is.
const workspaceSuffix = ".workspace"

// NoteWorkspace says, beside the directory kept for a workspace's build caches,
// whose it is: its name does not tell.
func NoteWorkspace(home, root string) error {
	file := Kept(home, root) + workspaceSuffix
	if text, err := os.ReadFile(file); err == nil && string(text) == root {
		return nil
	}
	return os.WriteFile(file, []byte(root), 0o600)
}

// GoneCache is the build cache of a workspace that no longer exists.
type GoneCache struct {
	Workspace string
	Paths     []string // the directory first
}

// GoneCaches lists the build caches in the bridge's home whose workspace no
// longer exists.
func GoneCaches(home string) ([]GoneCache, error) {
	notes, err := filepath.Glob(filepath.Join(home, "cache", "*"+workspaceSuffix))
	if err != nil {
		return nil, err
	}
	var out []GoneCache
	for _, note := range notes {
		root, err := os.ReadFile(note)
		if err != nil {
			return nil, err
		}
		if _, err := os.Lstat(string(root)); !errors.Is(err, fs.ErrNotExist) || !filepath.IsAbs(string(root)) {
			continue
		}
		kept := strings.TrimSuffix(note, workspaceSuffix)
		if Kept(home, string(root)) == kept {
			out = append(out, GoneCache{Workspace: string(root), Paths: []string{kept, kept + ".gitconfig", note}})
		}
	}
	return out, nil
}
