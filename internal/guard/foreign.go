package guard

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/shell"
)

// CheckEnviron says whether a caller may add variables to the environment of a
// session's commands. They must not change what an allowed command does, so
// they may only be new, and none that programs are known to take code,
// options, places or identities from. A variable that is set already to the
// same value changes nothing. own is the environment that they are added to.
func CheckEnviron(env map[string]string, own []string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value, set := lookup(own, name)
		switch {
		case set && value == env[name]:
		case set:
			return foreign(name, "it is set already")
		case changesPrograms(name), ours.MatchString(strings.ToUpper(name)):
			return foreign(name, "it can change what programs do")
		case strings.ContainsRune(env[name], 0):
			return foreign(name, "its value holds a NUL character")
		}
	}
	return nil
}

func foreign(name, why string) error {
	return &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the variable %q cannot be set: %s", name, why),
		Remedy: "leave it out, or set it in the environment that copilot-bridge is started with"}
}

// lookup finds a variable, whatever the case of its name: some programs do not
// tell case apart.
func lookup(environ []string, name string) (value string, ok bool) {
	for _, kv := range environ {
		if n, v, _ := strings.Cut(kv, "="); strings.EqualFold(n, name) {
			value, ok = v, true
		}
	}
	return value, ok
}

// changesPrograms reports whether programs are known to take code to run,
// options, places or proxies from a variable. It goes by families of names and
// errs on the side of yes.
func changesPrograms(name string) bool {
	upper := strings.ToUpper(name)
	return !identifier.MatchString(name) || influential.MatchString(upper) || shell.ChangesCommands(name)
}

var (
	// ours steer Copilot's runtime or the bridge, or say who they act as.
	ours        = regexp.MustCompile(`^(COPILOT|GITHUB|GH|ABP|OPENCLAW|OTEL|OPENAI|ANTHROPIC|AZURE)(_.*)?$`)
	identifier  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	influential = regexp.MustCompile(`^(` + strings.Join([]string{
		// Loaders, shells and what they read.
		`(LD|DYLD|MALLOC|GLIBC|GCONV)_.*`, `(BASH|ZSH|KSH|FISH|SHELL).*`, `PS\d`, `_`, `PWD|OLDPWD|USER|LOGNAME|TMP|TEMP|TMPDIR|TERM.*|MAIL.*|TZDIR`,
		// Languages, package managers and build tools.
		`(NODE|NPM|YARN|PNPM|PYTHON|PERL|RUBY|JAVA|CARGO|RUST|MAKE|CMAKE|PHP|LUA).*`, `GIT_.*`, `_?(JAVA|JDK|MAVEN|GRADLE|PIP|UV|GEM|BUNDLE|DOTNET|COMPLUS|CORECLR|BUN|DENO|CGO|COMPOSER|ELECTRON|CONDA|POETRY|HATCH|TOX|NIX|MISE|ASDF|NVM)_.*`,
		`GO[A-Z0-9]*`, `CC|CXX|CPP|LD|AR|AS|YACC|LEX`,
		// Tools that run others, and the places of their settings.
		`(LESS|MAN|RIPGREP|GREP|FZF|SSH|SSL|GPG|GNUPG|SUDO|DOCKER|KUBE|XDG|TAR|CURL|WGET|RSYNC|SVN|HG|CVS)(_.*)?`, `SSLKEYLOGFILE|MANPAGER|LESSOPEN|LESSCLOSE`,
		// By what the name says.
		`.*(PATH|HOME|OPTIONS|OPTS?|FLAGS|ARGS|RC|COMMAND|CMD|WRAPPER|PROGRAM|EXEC|LIBS?|SOCK|PAGER|EDITOR|VISUAL|BROWSER|ASKPASS|STARTUP|INIT|_DIR|FILE|_ENV|MODULES?|PLUGINS?)`,
		`.*(PROXY|CONFIG|CREDENTIAL|PRELOAD|HOOK|TOOLCHAIN|SHELL).*`,
	}, "|") + `)$`)
)
