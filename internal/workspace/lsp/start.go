package lsp

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Start is a language server or a formatter that is about to be started.
type Start struct {
	Language  string
	Formatter bool
	Program   program.Command
	// Harmless: the program is known, and started so that it runs nothing of
	// the workspace and fetches nothing that the workspace names.
	Harmless bool

	rules string // before it was permitted
}

// startOf finds the language's server.
func (m *Manager) startOf(language string, s Server) (Start, error) {
	var tried []string
	for _, c := range append([][]string{s.Command}, s.others...) {
		if len(c) == 0 {
			continue
		}
		if start, ok := m.find(Start{Language: language}, s, c, ""); ok {
			return start, nil
		}
		tried = append(tried, c[0])
	}
	remedy := s.Install
	if remedy == "" {
		remedy = "Install a language server and name its command in the configuration."
	}
	what := "no language server is configured for " + language
	if len(tried) > 0 {
		what = fmt.Sprintf("the language server for %s (%s) was not found", language, strings.Join(tried, " or "))
	}
	return Start{}, &bridge.Error{Code: bridge.CodeUnsupported, Message: what, Remedy: remedy}
}

// formatter is the command that formats a file, if it is installed.
func (m *Manager) formatter(t target) (Start, bool) {
	if len(t.server.Formatter) == 0 {
		return Start{}, false
	}
	return m.find(Start{Language: t.language, Formatter: true}, t.server, t.server.Formatter, t.path)
}

// find makes a command of the words that a table has for it. A bare name never
// means a program of the workspace.
func (m *Manager) find(start Start, s Server, words []string, file string) (Start, bool) {
	args := slices.Clone(words[1:])
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{file}", filepath.FromSlash(file))
	}
	for i, env := range [][]string{quiet(m.opts.Env), m.opts.Env} {
		c, err := program.New(program.Place{Root: m.dir, Env: append(slices.Clone(env), pinned(env)...)}, words[0], args...)
		if err != nil {
			continue // perhaps a version manager has it
		}
		if start.Program = c; !m.contains(c.Path) {
			c.Args[0] = filepath.Base(c.Path) // rules name programs, not where they are
		}
		start.Harmless = i == 0 && s.knows(start, words) && !m.contains(c.Path) && !managed(c)
		return start, true
	}
	return start, false
}

// knows says whether a command is one of the built-in table that is harmless,
// with the very arguments and settings that it has there.
func (s Server) knows(start Start, words []string) bool {
	known := builtin()[start.Language]
	commands := append([][]string{known.Command}, known.others...)
	if start.Formatter {
		commands = [][]string{known.Formatter}
	} else if s.RunsCode || s.settled {
		return false
	}
	name := filepath.Base(words[0])
	return slices.Contains(known.harmless, name) && slices.ContainsFunc(commands, func(c []string) bool {
		return len(c) > 0 && c[0] == name && slices.Equal(c[1:], words[1:])
	})
}

func (m *Manager) contains(path string) bool {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	rel, err := filepath.Rel(m.dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// quiet is an environment in which a name means an installed program: without
// the directories of version managers, whose programs let a file of the
// workspace (.tool-versions, mise.toml, package.json) decide what runs, and
// without what makes an interpreter load more than it is told to.
func quiet(env []string) []string {
	var out []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME":
			continue
		case "PATH":
			dirs := slices.DeleteFunc(filepath.SplitList(value), func(dir string) bool {
				dir = filepath.ToSlash(filepath.Clean(dir))
				return filepath.Base(dir) == "shims" || strings.HasSuffix(dir, "/.volta/bin") || strings.HasSuffix(dir, "aquaproj-aqua/bin")
			})
			kv = name + "=" + strings.Join(dirs, string(filepath.ListSeparator))
		}
		out = append(out, kv)
	}
	return out
}

// managed says whether the program, or one that servers start, is the entry of
// a version manager under another name. rustup is none here: see pinned.
func managed(c program.Command) bool {
	found := []string{c.Path}
	for _, name := range []string{"go", "node", "python3", "python"} {
		if path, err := program.Find(name, c.Env); err == nil {
			found = append(found, path)
		}
	}
	return slices.ContainsFunc(found, func(path string) bool {
		entry, err := filepath.EvalSymlinks(path)
		if err != nil {
			return true
		}
		switch strings.TrimSuffix(filepath.Base(entry), ".exe") {
		case "mise", "rtx", "asdf", "volta-shim", "aqua-proxy", "proto-shim", "pyenv", "rbenv", "direnv":
			return true
		}
		return false
	})
}

// pinned are the variables that keep servers and formatters to what the user
// has installed, whatever a file of the workspace says.
func pinned(env []string) []string {
	return []string{
		// Go programs start a helper for their telemetry that leaves the
		// process group; this is how they tell each other not to.
		"GO_TELEMETRY_CHILD=2",
		// go.mod may name another Go, modules anywhere and C code; the module
		// cache stays of use. GONOPROXY and GOVCS are for what GOPRIVATE would
		// fetch past GOPROXY, and to look at git would run its configuration.
		"GOTOOLCHAIN=local", "GOPROXY=off", "GONOPROXY=none", "GOVCS=*:off", "GOPACKAGESDRIVER=off", "CGO_ENABLED=0",
		"GOFLAGS=" + strings.TrimSpace(program.Variable(env, "GOFLAGS")+" -buildvcs=false"),
		// rust-toolchain.toml may name a directory of the workspace, or a
		// toolchain to install.
		"RUSTUP_TOOLCHAIN=" + rustToolchain(env), "RUSTUP_AUTO_INSTALL=0",
		"PYTHONSAFEPATH=1",
	}
}

var defaultToolchain = regexp.MustCompile(`(?m)^default_toolchain\s*=\s*"([^"]+)"`)

// rustToolchain is the toolchain that rustup uses where no file of a
// workspace names one.
func rustToolchain(env []string) string {
	if own := program.Variable(env, "RUSTUP_TOOLCHAIN"); own != "" {
		return own
	}
	home := program.Variable(env, "RUSTUP_HOME")
	if home == "" {
		home = filepath.Join(program.Variable(env, "HOME"), ".rustup")
	}
	if b, err := os.ReadFile(filepath.Join(home, "settings.toml")); err == nil {
		if found := defaultToolchain.FindSubmatch(b); found != nil {
			return string(found[1])
		}
	}
	return "stable"
}
