package program

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ErrNotFound is why a program cannot be found.
var ErrNotFound = exec.ErrNotFound

// Find returns the absolute path of the program that a name means under an
// environment. A name with a slash is that file.
func Find(name string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') || filepath.Base(name) != name {
		return executable(name)
	}
	return find(name, env, "")
}

// find looks for a bare name on the PATH of env. Entries that are not absolute
// are passed over: they would let any directory put programs in the place of
// others. So are programs that lie in root.
func find(name string, env []string, root string) (string, error) {
	for _, dir := range filepath.SplitList(Variable(env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := executable(filepath.Join(dir, name)); err == nil && (root == "" || !within(path, root)) {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: ErrNotFound}
}

// executable returns the absolute path of a file that can be run; on Windows
// an extension may be missing.
func executable(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return exec.LookPath(path)
}

// Variable returns a variable of an environment; the last one counts.
func Variable(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if key, value, _ := strings.Cut(kv, "="); sameName(key, name) {
			return value
		}
	}
	return ""
}

func sameName(a, b string) bool {
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}

// Environ is an environment for programs that work in the workspace root. It
// has no way into the workspace, so that a name means the user's own program:
// PATH has only absolute directories outside of root, and libraries are not
// loaded from inside. What would make a shell read a line otherwise than it
// was judged is left out as well.
func Environ(env []string, root string) []string {
	out := make([]string, 0, len(env))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case sameName(name, "PATH"):
			dirs := slices.DeleteFunc(filepath.SplitList(value), func(d string) bool { return !filepath.IsAbs(d) || within(d, root) })
			kv = name + "=" + strings.Join(dirs, string(filepath.ListSeparator))
		case changesShell(name), strings.HasPrefix(value, "() {"): // a function, as shells of old exported them
			continue
		case loadsLibraries(name) && slices.ContainsFunc(strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' }),
			func(part string) bool { return !filepath.IsAbs(part) || within(part, root) }):
			continue
		}
		out = append(out, kv)
	}
	return out
}

func changesShell(name string) bool {
	switch name {
	case "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "BASH_COMPAT", "BASH_XTRACEFD", "BASH_LOADABLES_PATH",
		"PROMPT_COMMAND", "PS4", "CDPATH", "IFS", "GLOBIGNORE", "EXECIGNORE":
		return true
	}
	return strings.HasPrefix(name, "BASH_FUNC_")
}

func loadsLibraries(name string) bool {
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_")
}

// within says whether a path is root or lies below it, as it is written or
// with its links followed.
func within(path, root string) bool {
	below := func(path, root string) bool {
		rel, err := filepath.Rel(root, path)
		return err == nil && filepath.IsLocal(rel)
	}
	return below(path, root) || below(resolved(path), resolved(root))
}

// resolved is a path with its links followed. Of one that does not exist the
// part that does is taken.
func resolved(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// absolute is a path as it is from a directory.
func absolute(path, dir string) string {
	if filepath.IsAbs(path) || dir == "" {
		return path
	}
	return filepath.Join(dir, filepath.FromSlash(path))
}
