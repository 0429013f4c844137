package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// assigns reads the assignments in front of a command, or of none.
func (s *scriptReader) assigns(list []*syntax.Assign, d dirSet) []Assign {
	var out []Assign
	for _, as := range list {
		if a, ok := s.assign(as, d); ok {
			out = append(out, a)
		}
	}
	return out
}

func (s *scriptReader) assign(as *syntax.Assign, d dirSet) (Assign, bool) {
	if as.Index != nil {
		s.evaluates(as.Index)
		s.substitutions(as.Index, d)
	}
	if as.Array != nil {
		for _, e := range as.Array.Elems {
			if e.Index != nil {
				s.evaluates(e.Index)
				s.substitutions(e.Index, d)
			}
			s.substitutions(e.Value, d)
			if e.Value == nil {
				continue
			}
			outer := s.manner
			s.manner = wordManner
			for _, w := range s.words([]*syntax.Word{e.Value}) {
				if w.dynamic && w.splits {
					s.opaque(foundLater)
				} else if w.pattern != "" {
					s.wordPath(w, d, false, true)
				}
			}
			s.manner = outer
		}
	}
	if as.Value != nil {
		s.substitutions(as.Value, d)
	}
	if as.Name == nil {
		return Assign{}, false
	}
	a := Assign{Name: as.Name.Value, Dynamic: as.Append || as.Array != nil || as.Index != nil}
	if as.Value != nil && !a.Dynamic {
		// A value is neither split nor are its braces and wildcards expanded.
		// Tildes are, behind colons too; a value with one is kept as it stands.
		words := s.append(nil, as.Value)
		switch {
		case len(words) == 0:
		case words[0].dynamic:
			a.Value, a.Dynamic = words[0].text, true
		default:
			a.Value = words[0].text
		}
	} else if as.Value != nil {
		a.Value = s.raw(as.Value)
	}
	return a, true
}

// note records assignments; command is what they stand in front of, if
// anything.
func (a *analyser) note(list []Assign, command string) {
	for i := range list {
		as := &list[i]
		as.Dangerous = isDangerous(as.Name, *as, command)
		if as.Dangerous {
			a.dangerous("the variable " + as.Name + " changes what commands do")
		}
		if !as.Dynamic && strings.Contains(as.Value, "[") {
			a.subscript(as.Value)
		}
	}
}

// assigned records a variable that something other than an assignment sets.
func (a *analyser) assigned(name string) {
	a.note([]Assign{{Name: a.element(name), Dynamic: true}}, "")
}

// declare lists export, declare and the like where the parser knows them.
func (s *scriptReader) declare(cmd *syntax.DeclClause, d dirSet) {
	words := []word{{text: cmd.Variant.Value}}
	var assigns []Assign
	for _, arg := range cmd.Args {
		as, named := s.assign(arg, d)
		switch {
		case arg.Naked && !named:
			words = s.expand(words, arg.Value)
			continue
		case arg.Naked:
			words = append(words, word{text: as.Name})
			continue
		}
		assigns = append(assigns, as)
		if as.Dynamic {
			words = append(words, word{text: s.raw(arg), dynamic: true, assigns: true})
		} else {
			words = append(words, word{text: as.Name + "=" + as.Value, assigns: true})
		}
	}
	s.run(call{words: words, assigns: assigns, via: s.via, raw: s.raw(cmd)}, d)
}

// ChangesCommands reports a variable that changes what commands do, whatever
// its value.
func ChangesCommands(name string) bool { return isDangerous(name, Assign{Dynamic: true}, "") }

// isDangerous judges a variable by its name and, for a few, by its value.
func isDangerous(name string, as Assign, command string) bool {
	upper := strings.ToUpper(name)
	switch {
	case name == "IFS":
		return command != "read" // while IFS= read -r line
	case strings.HasPrefix(upper, "GIT_"):
		if strings.HasPrefix(upper, "GIT_AUTHOR_") || strings.HasPrefix(upper, "GIT_COMMITTER_") || upper == "GIT_TERMINAL_PROMPT" ||
			upper == "GIT_OPTIONAL_LOCKS" {
			return false
		}
		return upper != "GIT_PAGER" && upper != "GIT_EDITOR" && upper != "GIT_SEQUENCE_EDITOR" || !isIdle(as)
	case upper == "TZ": // it may name a file
		return as.Dynamic || strings.HasPrefix(as.Value, ":") || strings.HasPrefix(as.Value, "/") || strings.Contains(as.Value, "..")
	case strings.HasSuffix(upper, "PAGER"), strings.HasSuffix(upper, "EDITOR"), upper == "VISUAL":
		return !isIdle(as)
	}
	return slices.Contains(dangerousNames, upper) || slices.ContainsFunc(dangerousPrefixes, func(p string) bool { return strings.HasPrefix(upper, p) })
}

// isIdle reports a pager or an editor that does nothing.
func isIdle(as Assign) bool {
	return !as.Dynamic && (as.Value == "" || has("cat true : 0 1 false", as.Value))
}

var dangerousPrefixes = []string{"LD_", "DYLD_", "BASH_FUNC_", "NPM_CONFIG_", "XDG_CONFIG", "CARGO_TARGET_", "_JAVA_"}

var dangerousNames = strings.Fields(`PATH IFS ENV BASH_ENV BASHOPTS SHELLOPTS BASH_XTRACEFD BASH_LOADABLES_PATH BASH_ALIASES BASH_CMDS
		PS0 PS1 PS2 PS4 PROMPT_COMMAND CDPATH FPATH ZDOTDIR HOME SHELL FCEDIT HISTFILE INPUTRC GLOBIGNORE EXECIGNORE
		TEXTDOMAIN TEXTDOMAINDIR TERMINFO TERMCAP LOCPATH GCONV_PATH NLSPATH HOSTALIASES
		NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONWARNINGS
		PERL5LIB PERL5OPT PERL5DB PERLLIB RUBYOPT RUBYLIB GEM_PATH GEM_HOME BUNDLE_GEMFILE LUA_INIT LUA_PATH LUA_CPATH PHPRC
		PHP_INI_SCAN_DIR JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS CLASSPATH MAVEN_OPTS GRADLE_OPTS
		CC CXX CPP LD AR GOFLAGS GOROOT GOTOOLDIR GOENV GOPROXY GONOSUMDB GONOSUMCHECK GOPRIVATE GOINSECURE
		RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS CARGO CARGO_HOME MAKEFLAGS MAKEFILES GNUMAKEFLAGS CMAKE_TOOLCHAIN_FILE
		BROWSER LESSOPEN LESSCLOSE LESSKEY SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH CVS_RSH SVN_SSH
		HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY CURL_HOME WGETRC OPENSSL_CONF SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS
		PIP_INDEX_URL PIP_EXTRA_INDEX_URL RIPGREP_CONFIG_PATH GREP_OPTIONS TAR_OPTIONS XZ_OPT GZIP TAPE
		DOCKER_HOST DOCKER_CONFIG KUBECONFIG AWS_CONFIG_FILE`)
