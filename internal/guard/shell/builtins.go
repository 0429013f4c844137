package shell

import (
	"regexp"
	"slices"
	"strings"
)

// printfAssigns finds %n in a format of printf.
var printfAssigns = regexp.MustCompile(`%[^%a-zA-Z\\]*[hjlLqtz]*n`)

// builtin flags the shell's own commands that change what others mean, and the
// variables that they set.
func (a *analyser) builtin(c *call) {
	switch c.name {
	case "export", "declare", "typeset", "readonly", "local":
		a.declared(c)
	case "alias", "hash", "enable":
		if len(c.args) > 0 {
			a.dangerous(c.name + " changes what a name means")
		}
		if c.name == "enable" && len(c.args) > 0 {
			a.opaque("enable may load code into the shell")
		}
	case "set", "shopt":
		a.setOptions(c)
	case "read", "mapfile", "readarray", "getopts", "unset", "wait", "let":
		if c.name == "let" {
			a.opaque("let evaluates text")
		}
		for _, w := range c.args {
			name := w.text
			if len(name) > 1 && name[0] == '-' { // -aNAME; -C of mapfile runs a command
				if name = name[2:]; strings.HasPrefix(w.text, "-C") || c.name != "read" && strings.Contains(w.text, "C") {
					a.opaque(c.name + " -C runs a command for what it reads")
				}
			}
			a.setsVariable(word{text: name, dynamic: w.dynamic})
		}
	case "printf":
		for i, w := range c.args {
			switch {
			case i == 0 && strings.HasPrefix(w.text, "-v"):
				a.opaque("printf -v sets a variable")
			case printfAssigns.MatchString(w.text):
				a.dangerous("printf %n sets a variable")
			}
		}
	case "test", "[":
		for i, w := range c.args {
			if (w.text == "-v" || w.text == "-R") && i+1 < len(c.args) && !c.args[i+1].dynamic && !isName(c.args[i+1].text) {
				a.opaque("a test of a variable whose name is evaluated")
			}
		}
	case "complete", "compgen", "bind", "fc", "history", "jobs":
		if len(c.args) > 0 {
			a.opaque(c.name + " runs what its options name")
		}
	}
}

// declared reads what the parser does not take for assignments of export and
// its like: behind command, or with the name in quotes.
func (a *analyser) declared(c *call) {
	for _, w := range c.args {
		name, value, sets := strings.Cut(w.text, "=")
		switch {
		case strings.HasPrefix(w.text, "-") || strings.HasPrefix(w.text, "+"):
			if strings.Trim(w.text, "-gxrpfaAtul") != "" {
				a.opaque(c.name + " " + w.text + " makes a variable something else")
			}
		case w.assigns:
		case sets && strings.HasPrefix(value, "(") && !w.dynamic:
			a.opaque(c.name + " expands the text of a list")
		case w.dynamic:
			if name = strings.TrimSuffix(strings.TrimLeft(name, `"'`), "+"); !sets || !isName(name) {
				a.dangerous(c.name + " sets a variable that is not known")
			}
			a.assigned(name)
		case sets:
			a.note([]Assign{{Name: strings.TrimSuffix(a.element(name), "+"), Value: value}}, "")
		default:
			a.element(name)
		}
	}
}

// setOptions flags options that change how later commands are read.
func (a *analyser) setOptions(c *call) {
	for _, w := range c.args {
		switch w.text {
		case "expand_aliases", "lastpipe", "extglob", "globstar", "dotglob", "cdable_vars", "sourcepath", "login_shell", "posix", "histexpand", "keyword", "nocaseglob":
			a.dangerous("the shell option " + w.text + " changes how commands are read")
		}
		if c.name == "set" && len(w.text) > 1 && w.text[0] == '-' && strings.ContainsAny(w.text, "kHP") {
			a.dangerous("set " + w.text + " changes how commands are read")
		}
		if w.text == "--" {
			return
		}
	}
}

func (a *analyser) setsVariable(w word) {
	if w.dynamic {
		a.dangerous("a variable is set whose name is not known")
		return
	}
	a.assigned(strings.TrimSuffix(w.text, "+"))
	if name, _, sets := strings.Cut(w.text, "="); sets { // let
		a.assigned(strings.TrimRight(name, "+-*/%&|^<> "))
	}
}

// hasCluster reports a short option, alone or among others.
func hasCluster(args []word, letter byte) bool {
	return slices.ContainsFunc(args, func(w word) bool { return mayBeOption(w.text, "-"+string(letter)) })
}
