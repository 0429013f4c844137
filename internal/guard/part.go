package guard

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// withheld is the error of a call that was cancelled while secrets in its
// result were looked for.
func withheld(err error) error {
	return fmt.Errorf("the result is withheld: the call was cancelled while secrets in it were looked for: %w", err)
}

// Bounds of reading whole files, of which a tool showed parts, for their
// secrets. Beyond them only secrets of a known form are masked.
const (
	maxPartName  = 256
	maxPartNames = 256
	maxPartFiles = 32
	maxPartFile  = 4 << 20
)

// redactorFor returns what masks the result of a call. A tool may have shown
// part of a file, such as some lines of a private key or the value below its
// name, which tells nothing by itself. So the files that the call names, and
// those that the result names before its lines, are read whole, and what is
// secret in them is hidden in the result.
func (g *Guard) redactorFor(ctx context.Context, call bridge.ToolCall, result any) *redact.Redactor {
	names := g.shownFiles(call, result)
	if len(names) == 0 {
		return g.results
	}
	root, err := os.OpenRoot(g.opts.Workspace.Root())
	if err != nil {
		return g.results
	}
	defer func() { _ = root.Close() }() // only read from
	var secrets []string
	read := 0
	for _, name := range names {
		if text := readPart(root, name); text != "" && read < maxPartFiles {
			read++
			found, _ := g.results.Secrets(ctx, text) // whoever masks notices the end of ctx
			secrets = append(secrets, found...)
		}
	}
	if len(secrets) == 0 {
		return g.results
	}
	return g.results.With(secrets)
}

// shownFiles are the files that a call may have shown parts of, relative to the
// workspace.
func (g *Guard) shownFiles(call bridge.ToolCall, result any) []string {
	names := map[string]bool{}
	dirs := []string{"."}
	for _, p := range g.action(call).Paths {
		if !p.Outside && p.Problem == "" {
			names[p.Rel] = true
			dirs = append(dirs, p.Rel)
		}
	}
	found := map[string]bool{}
	namedFiles(result, found)
	for name := range found {
		if filepath.IsAbs(name) {
			if res, err := g.opts.Workspace.Resolve(name); err == nil && res.Inside {
				names[res.Rel] = true
			}
			continue
		}
		for _, dir := range dirs {
			names[filepath.ToSlash(filepath.Join(dir, name))] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// namedFiles finds the names that tools which search put before lines:
// name:12:, name-12- and name:.
func namedFiles(result any, found map[string]bool) {
	switch v := result.(type) {
	case string:
		for line := range strings.Lines(v) {
			if len(found) >= maxPartNames {
				return
			}
			if name := nameBefore(line[:min(len(line), maxPartName)]); name != "" {
				found[name] = true
			}
		}
	case map[string]any:
		for _, inner := range v {
			namedFiles(inner, found)
		}
	case []any:
		for _, inner := range v {
			namedFiles(inner, found)
		}
	}
}

func nameBefore(line string) string {
	if m := dashedName.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	name, rest, ok := strings.Cut(line, ":")
	if !ok || rest == "" || !strings.ContainsAny(name, "./") && (rest[0] < '0' || rest[0] > '9') {
		return ""
	}
	return name
}

var dashedName = regexp.MustCompile(`^([^\s:]+?)-\d+-\S`)

// readPart returns the beginning of a regular file, or nothing.
func readPart(root *os.Root, name string) string {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	text, _, err := readRegular(f, maxPartFile)
	if err != nil {
		return ""
	}
	return string(text)
}
