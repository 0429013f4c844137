package abp

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// artifactsDir is where large outputs are kept, relative to the workspace.
const artifactsDir = ".agent-backplane/artifacts"

// keep writes an output below the workspace and returns its path relative to
// it. It goes through os.Root: a link in the way leads nowhere.
func keep(root, runID, tool string, at time.Time, text string) (rel string, err error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	dir := path.Join(artifactsDir, runID)
	if err := r.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
		return "", err
	}
	for ms := at.UnixMilli(); ; ms++ {
		rel = path.Join(dir, artifactName(tool, ms))
		f, err := r.OpenFile(filepath.FromSlash(rel), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue // two in one millisecond
		}
		if err != nil {
			return "", err
		}
		_, err = f.WriteString(text)
		return rel, errors.Join(err, f.Close())
	}
}

// artifactName is a tool's name in letters that every file system knows, and
// the time.
func artifactName(tool string, ms int64) string {
	const most = 64
	var b strings.Builder
	dash := false
	for _, c := range strings.ToLower(tool) {
		plain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !plain {
			if dash {
				continue
			}
			c = '-'
		}
		dash = !plain
		b.WriteRune(c)
	}
	name := b.String()[:min(most, b.Len())]
	if strings.Trim(name, ".") == "" {
		name = "tool"
	}
	return name + "-" + strconv.FormatInt(ms, 10) + ".txt"
}
