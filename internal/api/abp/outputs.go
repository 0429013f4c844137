package abp

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// artifactsDir is where large outputs are kept, relative to the workspace.
const artifactsDir = ".agent-backplane/artifacts"

// keep writes an output below the workspace and returns its relative path. os.Root
// keeps links from leading out.
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

var unsafeName = regexp.MustCompile(`[^a-z0-9._-]+`)

// artifactName is a tool's name in safe letters, and the time.
func artifactName(tool string, ms int64) string {
	name := unsafeName.ReplaceAllString(strings.ToLower(tool), "-")
	if name = name[:min(64, len(name))]; strings.Trim(name, ".") == "" {
		name = "tool"
	}
	return name + "-" + strconv.FormatInt(ms, 10) + ".txt"
}

// spillNotice is what the runtime's shell returns instead of a long output: the
// file that has it. A command could print the same, so the file must be in the
// runtime's directory and have a name of its form with a random part.
var spillNotice = regexp.MustCompile(`^Output too large to read at once \([^)\n]*\)\. Saved to: ([^\n]+)\n`)

var spillName = regexp.MustCompile(`^\d+-copilot-tool-output-\d+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.txt$`)

// spillDir is a runtime's or a session's directory below the system's for
// temporary files.
var spillDir = regexp.MustCompile(`^copilot-bridge-[0-9a-f]{24}(/session-\d+/tmp)?$`)

// maxSpill bounds how much of such a file is read.
const maxSpill = 8 << 20

// unspilled returns the output that a notice stands for, or the text itself.
func (r *run) unspilled(text string) string {
	m := spillNotice.FindStringSubmatch(text)
	if m == nil || !spillName.MatchString(filepath.Base(m[1])) {
		return text
	}
	if dir, err := filepath.Rel(os.TempDir(), filepath.Dir(m[1])); err != nil || !spillDir.MatchString(filepath.ToSlash(dir)) {
		return text
	}
	whole, err := readSpill(m[1])
	if err != nil {
		r.door.opts.Logger.Warn("an output that the runtime put away was not found", "error", err)
		return text
	}
	return r.door.service.Clean(strings.ToValidUTF8(whole, "\uFFFD"))
}

func readSpill(path string) (text string, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if same, err := f.Stat(); err != nil || !os.SameFile(info, same) {
		return "", errors.New("it was replaced")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSpill+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxSpill {
		return string(data[:maxSpill]) + "\n[… the rest is left out by copilot-bridge]\n", nil
	}
	return string(data), nil
}
