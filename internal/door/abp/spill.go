package abp

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// spillNotice is what the runtime's shell returns instead of an output of more
// than about 20 KB: where all of it is. A command could print the same, so the
// file must be where the runtime puts it and called as it calls it, with a
// random part that cannot be guessed.
var spillNotice = regexp.MustCompile(`^Output too large to read at once \([^)\n]*\)\. Saved to: ([^\n]+)\n`)

var spillName = regexp.MustCompile(`^\d+-copilot-tool-output-\d+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.txt$`)

// spillDir is what the temporary directory of an agent's runtime is called.
var spillDir = regexp.MustCompile(`^copilot-bridge-[0-9a-f]{24}$`)

// maxSpill bounds what is taken over of such a file.
const maxSpill = 8 << 20

// unspilled returns the output that a notice stands for, or the text itself.
func (r *run) unspilled(text string) string {
	m := spillNotice.FindStringSubmatch(text)
	if m == nil || !spillName.MatchString(filepath.Base(m[1])) {
		return text
	}
	dir := filepath.Dir(m[1])
	if !spillDir.MatchString(filepath.Base(dir)) || filepath.Dir(dir) != filepath.Clean(os.TempDir()) {
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
