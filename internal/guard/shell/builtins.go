package shell

import (
	"regexp"
	"strings"
)

// printfAssigns finds %n in a format of printf.
var printfAssigns = regexp.MustCompile(`%[^%a-zA-Z\\]*[hjlLqtz]*n`)

// builtin flags the shell's own commands that change what others mean, and
// records the variables that they set.
func (a *analyser) builtin(c *call) {
	switch c.name {
	case "export", "declare", "typeset", "readonly", "local":
		a.flag(c, FlagDeclare)
		a.declared(c)
	case "alias", "unalias":
		a.flag(c, FlagAlias)
		if c.name == "alias" && len(c.args) > 0 {
			a.dangerous("an alias changes what a name means")
		}
	case "set", "shopt":
		a.flag(c, FlagOptions)
		a.setOptions(c)
	case "hash":
		a.flag(c, FlagHash)
		if hasCluster(c.args, 'p') {
			a.dangerous("hash -p puts another program under a name")
		}
	case "enable":
		a.flag(c, FlagLoad)
		if len(c.args) > 0 {
			a.dangerous("enable changes the shell's own commands")
		}
		if hasCluster(c.args, 'f') {
			a.opaque("enable -f loads code into the shell")
		}
	case "read", "mapfile", "readarray", "getopts", "unset", "wait":
		a.setsVariables(c)
	case "printf":
		for i := range c.args {
			if v, ok := optionValue(c.args, i, "-v"); ok && i == 0 {
				a.setsVariable(v)
			}
			if printfAssigns.MatchString(c.args[i].text) {
				a.dangerous("printf %n sets a variable")
			}
		}
	case "test", "[":
		a.testCommand(c)
	case "let":
		if c.parsed {
			return
		}
		for _, w := range c.args {
			if !number.MatchString(w.text) {
				a.opaque("an arithmetic expression with a variable in it")
			}
			if name, _, ok := strings.Cut(w.text, "="); ok {
				a.assigned(strings.TrimRight(name, "+-*/%&|^<> "))
			}
		}
	case "complete", "compgen":
		if hasCluster(c.args, 'C') || hasCluster(c.args, 'F') || hasCluster(c.args, 'W') {
			a.opaque(c.name + " runs what its options name")
		}
	case "bind", "fc", "history", "jobs":
		for _, w := range c.args {
			if strings.HasPrefix(w.text, "-x") || strings.HasPrefix(w.text, "-e") || strings.HasPrefix(w.text, "-s") || c.name == "fc" {
				a.opaque(c.name + " runs commands that are not shown")
			}
		}
	}
}

// declared reads what the parser does not take for assignments of export and
// its like: behind command, or with the name in quotes.
func (a *analyser) declared(c *call) {
	var assigns []Assign
	hides := false // export -n and declare +x take variables out of the environment
	for _, w := range c.args {
		name, value, ok := strings.Cut(w.text, "=")
		if w.dynamic { // it is as written: "NAME=$x"
			name = strings.TrimLeft(name, `"'`)
		}
		hides = hides || c.name == "export" && strings.HasPrefix(w.text, "-") && strings.Contains(w.text, "n") || strings.HasPrefix(w.text, "+") && strings.Contains(w.text, "x")
		switch {
		case strings.HasPrefix(w.text, "-") || strings.HasPrefix(w.text, "+"):
			if c.name != "export" && strings.ContainsAny(w.text, "n") {
				a.opaque(c.name + " -n makes a variable stand for another")
			}
			if strings.ContainsAny(w.text, "i") && c.name != "export" {
				a.dangerous("a variable that is evaluated as arithmetic")
			}
		case ok && strings.HasPrefix(value, "(") && !w.dynamic:
			a.opaque(c.name + " expands the text of a list")
		case w.assigns:
		case w.dynamic && !isName(strings.TrimSuffix(name, "+")):
			a.dangerous(c.name + " sets a variable that is not known")
		case ok && w.dynamic:
			assigns = append(assigns, Assign{Name: strings.TrimSuffix(name, "+"), Value: value, Dynamic: true})
		case ok:
			assigns = append(assigns, Assign{Name: strings.TrimSuffix(a.element(name), "+"), Value: value})
		case strings.Contains(name, "["):
			a.element(name)
		case hides:
			assigns = append(assigns, Assign{Name: name, Dynamic: true})
		}
	}
	a.note(assigns, "")
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

// setsVariables records the names that a builtin assigns to.
func (a *analyser) setsVariables(c *call) {
	values := map[string]string{"read": "adinNptu", "mapfile": "dnOsuCc", "readarray": "dnOsuCc", "wait": "p"}[c.name]
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		if len(w.text) > 1 && w.text[0] == '-' {
			if (c.name == "mapfile" || c.name == "readarray") && strings.Contains(w.text, "C") {
				a.opaque(c.name + " -C runs a command for what it reads")
			}
			at := strings.IndexAny(w.text, values)
			if at < 0 {
				continue
			}
			value := word{text: w.text[at+1:], dynamic: w.dynamic}
			if value.text == "" {
				if i++; i == len(c.args) {
					break
				}
				value = c.args[i]
			}
			if w.text[at] == 'a' || c.name == "wait" {
				a.setsVariable(value)
			}
			continue
		}
		if c.name != "wait" {
			a.setsVariable(w)
		}
	}
}

func (a *analyser) setsVariable(w word) {
	if w.dynamic {
		a.dangerous("a variable is set whose name is not known")
		return
	}
	a.assigned(w.text)
}

// testCommand looks for text that test evaluates as arithmetic.
func (a *analyser) testCommand(c *call) {
	for i, w := range c.args {
		if (w.text == "-v" || w.text == "-R") && i+1 < len(c.args) {
			if name := c.args[i+1]; !name.dynamic && !isName(name.text) {
				a.opaque("a test of a variable whose name is evaluated")
			}
		}
	}
}

// hasCluster reports a short option, alone or among others.
func hasCluster(args []word, letter byte) bool {
	for _, w := range args {
		if len(w.text) > 1 && w.text[0] == '-' && w.text[1] != '-' && strings.IndexByte(w.text, letter) > 0 {
			return true
		}
	}
	return false
}
