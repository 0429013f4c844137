package registration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/json5"
)

const (
	maxConfig   = 4 << 20
	maxBackups  = 10
	fresh       = "{}\n" // a configuration that nobody has written yet
	backupStamp = "20060102T150405.000000000"
)

// settings is OpenClaw's configuration, as it was read and as it will be.
type settings struct {
	path    string // with links followed
	before  []byte
	mode    fs.FileMode
	missing bool // there is no such file yet
	doc     *json5.Document
}

// readSettings reads the configuration; it fails if it could not be changed
// without breaking it.
func (r *Registrar) readSettings() (*settings, error) {
	at := r.opts.Places.Config
	s := &settings{path: at, mode: 0o600}
	target, err := filepath.EvalSymlinks(at)
	switch {
	case err == nil:
		s.path = target
	case !errors.Is(err, fs.ErrNotExist):
		return nil, unreadable(at, err)
	default:
		if _, err := os.Lstat(at); err == nil {
			return nil, unreadable(at, errors.New("it is a link that leads nowhere"))
		}
		s.missing = true
		s.doc, err = json5.Parse([]byte(fresh))
		return s, err
	}
	info, err := os.Stat(s.path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxConfig) {
		err = errors.New("it is too large, or no file")
	}
	if err == nil {
		s.mode = info.Mode().Perm()
		s.before, err = durable.ReadFile(s.path)
	}
	if err != nil {
		return nil, unreadable(at, err)
	}
	s.doc, err = json5.Parse(s.before)
	if err == nil && !bytes.HasPrefix(s.doc.JSON(), []byte("{")) {
		err = errors.New("it is not an object")
	}
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "OpenClaw's configuration " + at + " is broken", Cause: err,
			Remedy: "mend it there; `openclaw doctor` may say more"}
	}
	return s, nil
}

func unreadable(path string, err error) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: "OpenClaw's configuration " + path + " cannot be read", Cause: cause(err),
		Remedy: "mend it, or name another with OPENCLAW_CONFIG_PATH"}
}

// changed says whether there is something to write.
func (s *settings) changed() bool { return !bytes.Equal(s.doc.Bytes(), s.text()) }

// text is what the file held, or would hold if it were there.
func (s *settings) text() []byte {
	if s.missing {
		return []byte(fresh)
	}
	return s.before
}

// writable returns an error if the file is read-only, or is declared so.
func (r *Registrar) writable(s *settings) error {
	refused := &bridge.Error{Code: bridge.CodeConflict, Message: "OpenClaw's configuration " + s.path + " is read-only",
		Remedy: "make it writable, or add the lines that --dry-run shows where you keep it"}
	for _, name := range []string{"OPENCLAW_NIX_MODE", "OPENCLAW_CONFIG_READONLY"} {
		if v := r.env(name); v == "1" || v == "true" {
			refused.Message += " (" + name + "=" + v + ")"
			return refused
		}
	}
	if !s.missing && s.mode&0o200 == 0 {
		return refused
	}
	return nil
}

// save writes the configuration, if it has changed, and keeps what it was.
func (r *Registrar) save(s *settings) (backup string, err error) {
	if !s.changed() {
		return "", nil
	}
	if err := s.unchanged(); err != nil {
		return "", err
	}
	if backup, err = r.backUp(s); err != nil {
		return "", err
	}
	if err := durable.WriteFile(s.path, s.doc.Bytes(), s.mode); err != nil {
		return "", &bridge.Error{Code: bridge.CodeConflict, Message: "OpenClaw's configuration cannot be written", Cause: err,
			Remedy: "make " + filepath.Dir(s.path) + " writable for you"}
	}
	s.before, s.missing = s.doc.Bytes(), false
	return backup, nil
}

// unchanged refuses if another program has written the file since it was read.
func (s *settings) unchanged() error {
	now, err := durable.ReadFile(s.path)
	if s.missing && errors.Is(err, fs.ErrNotExist) || !s.missing && err == nil && bytes.Equal(now, s.before) {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeConflict, Message: "another program has changed " + s.path + " at the same time", Cause: err, Remedy: "try again"}
}

// backUp keeps the configuration as it was, for its owner only.
func (r *Registrar) backUp(s *settings) (string, error) {
	if s.missing {
		return "", nil
	}
	dir := filepath.Join(r.opts.Home, "openclaw-backups")
	path := filepath.Join(dir, filepath.Base(s.path)+"."+time.Now().UTC().Format(backupStamp))
	if err := durable.WriteFile(path, s.before, 0o600); err != nil {
		return "", fmt.Errorf("keep a copy of OpenClaw's configuration: %w", err)
	}
	// Old ones go; that one cannot be removed is no reason to fail.
	if all, err := filepath.Glob(filepath.Join(dir, "*")); err == nil && len(all) > maxBackups {
		slices.SortFunc(all, func(a, b string) int { return strings.Compare(filepath.Ext(a)+a, filepath.Ext(b)+b) })
		for _, old := range all[:len(all)-maxBackups] {
			_ = os.Remove(old)
		}
	}
	return path, nil
}

// remove deletes a configuration that we have made and that says nothing.
func (s *settings) remove() error {
	if err := s.unchanged(); err != nil {
		return err
	}
	return os.Remove(s.path)
}

// included says whether a part of the configuration comes from another file, so
// that an edit here would not count, or would hide that file's values.
func (s *settings) included(path []string) (at string, yes bool) {
	for i := range len(path) {
		if _, yes := s.doc.Get(append(slices.Clone(path[:i]), "$include")...); yes {
			return strings.Join(append(slices.Clone(path[:i]), "$include"), "."), true
		}
	}
	return "", false
}

// cause is an error about a path, without the path.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// lines are what differs between two texts, as "- old" and "+ new".
func (r *Registrar) lines(before, after string) []string {
	if before == after {
		return nil
	}
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	var out []string
	for _, side := range []struct {
		mark  string
		lines []string
	}{{"- ", old}, {"+ ", now}} {
		text, _ := r.redact.String(strings.Join(side.lines, "\n"))
		for _, l := range strings.Split(text, "\n") {
			if len(side.lines) > 0 {
				out = append(out, side.mark+strings.TrimSuffix(l, "\r"))
			}
		}
	}
	return out
}
