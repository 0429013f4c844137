package abp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
)

const (
	// maxFile bounds a context file; of a longer one only the name is given.
	maxFile = 64 << 10
	// maxContext bounds all of them together.
	maxContext = 256 << 10
)

// prompt is the task and its context. Files that the policy denies are left out,
// with a warning.
func (p *plan) prompt(s Session, w *contract.WorkOrder) bridge.Prompt {
	var b strings.Builder
	b.WriteString(w.Task)
	for _, sn := range w.Context.Snippets {
		section(&b, "Snippet "+sn.Name, sn.Content)
	}
	room := maxContext
	for _, name := range w.Context.Files {
		rel, err := relative(p.order.Root, name)
		if err != nil {
			p.warn("context file %s is left out: %v", name, err)
			continue
		}
		if why := s.Unreadable(rel); why != "" {
			p.warn("context file %s is left out: %s", name, why)
			continue
		}
		text, err := contextFile(p.order.Root, rel, min(maxFile, room))
		switch {
		case errors.Is(err, errNotInline):
			section(&b, "File "+rel, "(Read it yourself: "+err.Error()+".)")
		case err != nil:
			p.warn("context file %s is left out: %v", name, err)
		default:
			room -= len(text)
			section(&b, "File "+rel, text)
		}
	}
	return bridge.Prompt{Text: b.String(), ResponseFormat: p.format}
}

func (p *plan) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

func section(b *strings.Builder, title, text string) {
	b.WriteString("\n\n--- " + title + " ---\n" + strings.TrimSuffix(text, "\n"))
}

// relative names a path of the workspace by its root.
func relative(root, name string) (string, error) {
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return "", err
		}
		name = rel
	}
	name = filepath.ToSlash(filepath.Clean(name))
	if !fs.ValidPath(name) {
		return "", fmt.Errorf("path escapes workspace root: '%s'", name)
	}
	return name, nil
}

var errNotInline = errors.New("it is not text, or too long for the prompt")

// contextFile reads a file, which may not lead out of the workspace.
func contextFile(root, rel string, limit int) (text string, err error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	info, err := r.Stat(filepath.FromSlash(rel))
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > int64(limit) {
		return "", errNotInline
	}
	f, err := r.Open(filepath.FromSlash(rel))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return "", err
	}
	if len(data) > limit || !utf8.Valid(data) || strings.ContainsRune(string(data), 0) {
		return "", errNotInline
	}
	return string(data), nil
}
