package guard

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
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
		case name == "TZ" && timeZone.MatchString(env[name]):
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
	// ours steer Copilot's runtime or the bridge, or say who they or the
	// clients of a service act as, and where.
	ours = regexp.MustCompile(`^((COPILOT|GITHUB|GH|GITLAB|ABP|OPENCLAW|OTEL|OPENAI|ANTHROPIC|AZURE|ARM|AWS|BOTO|GOOGLE|GCLOUD|CLOUDSDK|DIGITALOCEAN|CLOUDFLARE|HEROKU|HF|` +
		`VAULT|CONSUL|NOMAD|MYSQL)(_.*)?|PG[A-Z]+)$`)
	// timeZone is the name of one. Other values may name any file.
	timeZone    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*$`)
	identifier  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	influential = regexp.MustCompile(`^(` + strings.Join([]string{
		// Loaders, shells and what they read.
		`(LD|DYLD|MALLOC|GLIBC|GCONV)_.*`, `(BASH|ZSH|KSH|FISH|SHELL|R?PROMPT).*`, `PS\d`, `_`, `PWD|OLDPWD|USER|LOGNAME|TMP|TEMP|TERM.*|MAIL.*|TMOUT|POSIXLY_CORRECT`,
		// Languages, package managers and build tools.
		`(NODE|NPM|YARN|PNPM|PYTHON|PERL|RUBY|JAVA|CARGO|RUST|MAKE|CMAKE|PHP|LUA|TCL|TEX|JULIA|OCAML|CAML|OPAM|ERL|GHC|SWIFT|VIM|NVIM|EMACS|GDB|LLDB).*`, `GIT_.*`,
		`_?(JAVA|JDK|MAVEN|GRADLE|PIP|UV|GEM|BUNDLE|DOTNET|COMPLUS|CORECLR|BUN|DENO|CGO|COMPOSER|ELECTRON|CONDA|POETRY|HATCH|TOX|NIX|MISE|ASDF|NVM|FNM|VOLTA|HOMEBREW|R|TS_NODE|FLASK|UVICORN|MIX|HEX|SBT|STACK|CABAL|DART|FLUTTER|ANDROID)_.*`,
		`GO[A-Z0-9]*`, `CC|CXX|CPP|FC|F77|LD|AR|AS|NM|RANLIB|STRIP|INSTALL|M4|YACC|LEX|SED|AWK`, `(S?CCACHE|DISTCC|ICECC|GCC|CLANG|CCC|COLLECT|LLVM|CONAN|VCPKG|MESON|NINJA|BAZEL|VALGRIND)_.*`,
		// Tools that run others or have options under their own name, and the
		// places of their settings.
		`(LESS|MORE|MAN|GROFF|RIPGREP|GREP|FZF|SSH|SSL|OPENSSL|GNUTLS|NSS|KRB5|GPG|GNUPG|SUDO|DOCKER|PODMAN|BUILDKIT|COMPOSE|KUBE|HELM|ANSIBLE|TF_CLI|XDG|DBUS|GIO|GTK|QT|GST|MAGICK|GRAPHVIZ|TAR|CURL|WGET|RSYNC|SVN|HG|CVS|JJ|CTAGS|ETAGS|GTAGS|CSCOPE|BAT|DELTA|TMUX)(_.*)?`,
		`(UN)?(ZIP|GZIP|BZIP2?|XZ|LZIP|LZOP|LZMA|ZSTD|PIGZ|RAR)(INFO.*|_.*)?`, `LESS[A-Z]+|MAN(LESS|ROFFSEQ)|HG[A-Z]+|P4[A-Z]+|(LDAP|ODBC).*|DISPLAY|WAYLAND_.*|XAUTHORITY|LOCALDOMAIN|SSLKEYLOGFILE`,
		// By what the name says.
		`.*(PATH|HOME|ROOT|OPTIONS?|OPTS?|FLAGS|ARGS|DEFAULTS|RC|CONF|COMMAND|CMD|WRAPPER|PROGRAM|EXEC|EXECUTABLE|COMPILER|LINKER|INTERPRETER|LAUNCHER|RUNNER|HELPER|SCRIPTS?|RSH|LIBS?|LIBRARY|SOCK|PAGER|EDITOR|VISUAL|VIEWER|BROWSER|ASKPASS|STARTUP|INIT|DIRS?|FILES?|MODULES?|PLUGINS?|EXTENSIONS?|ENGINES?|INPUTS|OUTPUT|HISTORY)`,
		`(.*_)?(BIN|EXE|DIFF|MERGE|CA)|.*(PREFIX|ENV|CACHE)(_.*)?`,
		`.*(PROXY|CONFIG|CREDENTIAL|PRELOAD|HOOK|TOOLCHAIN|BINARY|SHELL|PROFILE|ENDPOINT|CA_BUNDLE|CA_CERT|SSL_CERT|MIRROR|REGISTRY|DOWNLOAD).*`,
	}, "|") + `)$`)
)
