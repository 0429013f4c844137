package git

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// setting is one entry of a configuration.
type setting struct{ key, value string }

// SafeEnviron returns an environment for programs that may run git in a
// workspace: shell lines, tasks, language servers. git then takes no directory
// for a bare repository because it looks like one, starts no file system
// monitor, fetches no missing objects by itself (as of git 2.45), does not
// write the index where it only reads, and uses neither pager nor prompt.
// Hooks, filters and drivers are left alone: the user may want them in a
// command they agree to.
func SafeEnviron(environ []string) []string {
	return configure(append(slices.Clone(environ), "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0"),
		setting{"safe.bareRepository", "explicit"}, setting{"core.fsmonitor", "false"})
}

// configure adds settings for git to an environment. They win over those of
// every file.
func configure(environ []string, settings ...setting) []string {
	n := 0
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "GIT_CONFIG_COUNT="); ok {
			n, _ = strconv.Atoi(value) // git refuses what is no number
		}
	}
	for _, s := range settings {
		number := strconv.Itoa(n)
		environ = append(environ, "GIT_CONFIG_KEY_"+number+"="+s.key, "GIT_CONFIG_VALUE_"+number+"="+s.value)
		n++
	}
	environ = slices.DeleteFunc(environ, func(e string) bool { return strings.HasPrefix(e, "GIT_CONFIG_COUNT=") })
	return append(environ, "GIT_CONFIG_COUNT="+strconv.Itoa(n))
}

// plainEnviron is what git gets of the caller's environment: nothing that is
// meant for git, and no way into the workspace, where git and the user's
// filters would find programs of the workspace.
func plainEnviron(environ []string, workspace string) []string {
	env := slices.DeleteFunc(program.Environ(environ, workspace), func(entry string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
		return strings.HasPrefix(name, "GIT_") || name == "SSH_ASKPASS"
	})
	const who, where = "Copilot Bridge", "copilot-bridge@localhost"
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ADVICE=0",
		"GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=",
		"GIT_AUTHOR_NAME="+who, "GIT_AUTHOR_EMAIL="+where, "GIT_COMMITTER_NAME="+who, "GIT_COMMITTER_EMAIL="+where)
}

// resolved follows links where it can.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return filepath.Clean(path)
}

// same says whether two paths lead to the same directory.
func same(a, b string) bool {
	one, err1 := os.Stat(a)
	two, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, two)
}
