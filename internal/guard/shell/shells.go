package shell

import (
	"strings"
)

var shellOptions = optionSpec{flags: "abcefhiklmnprstuvxBCDEHPT", values: "oO", plusMinus: true, dashEnds: true,
	longFlags: "login norc noprofile posix verbose noediting restricted debugger dump-po-strings dump-strings no-rcs",
	longs:     "rcfile init-file"}

// shell looks into a shell that is started: its -c script, its standard input
// if a here-document gives it. A script file is a program like any other.
func (a *analyser) shell(c *call, d dirSet) {
	a.flag(c, FlagShell)
	opts, rest, known := shellOptions.parse(c.args)
	if !known {
		a.opaque("what " + c.name + " runs cannot be seen")
		return
	}
	if _, ok := find(opts, "--rcfile", "--init-file"); ok {
		a.opaque(c.name + " reads commands from a start-up file")
	}
	if _, ok := find(opts, "-c"); ok {
		switch {
		case len(rest) == 0:
		case rest[0].dynamic || rest[0].pattern != "" || rest[0].tilde:
			a.opaque("the script of " + c.name + " -c is not known")
		default:
			a.innerScript(rest[0].text, c, d)
		}
		return
	}
	_, fromStdin := find(opts, "-s")
	if !fromStdin && len(rest) > 0 && rest[0].dynamic {
		a.opaque("which script " + c.name + " runs is not known")
		return
	}
	if !fromStdin && len(rest) > 0 && rest[0].text != "-" && !isStandardInput(rest[0].text) {
		return
	}
	if c.stdin == nil || c.stdin.dynamic {
		a.opaque(c.name + " runs what it reads from its standard input")
		return
	}
	a.innerScript(c.stdin.text, c, d)
}

func isStandardInput(path string) bool {
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/")
}

// innerScript walks a script in the dialect of the shell that c starts.
func (a *analyser) innerScript(text string, c *call, d dirSet) {
	switch c.name {
	case "bash", "rbash":
		a.script(text, Bash, d, c.name, c.line)
	case "sh", "dash", "ash":
		a.plainScript(text, c, d)
	default:
		if !isPlain(text) {
			a.opaque(c.name + " may read its script differently from bash")
		}
		a.script(text, Bash, d, c.name, c.line)
	}
}

// plainScript walks a script for sh, which is bash on some systems and a plain
// shell on others. Where both read it differently all that either would do is
// listed.
func (a *analyser) plainScript(text string, c *call, d dirSet) {
	a.script(text, Bash, d, c.name, c.line)
	if a.err != nil || isPlain(text) {
		return
	}
	plain := &analyser{start: a.start, seen: a.seen, scripts: a.scripts, funcs: a.funcs}
	plain.script(text, POSIX, d, c.name, c.line)
	if plain.err != nil {
		a.opaque("sh may read its script differently from bash")
		return
	}
	a.merge(plain)
}

// merge adds what b has and a has not.
func (a *analyser) merge(b *analyser) {
	for _, cmd := range b.out.Commands {
		if !containsCommand(a.out.Commands, cmd) {
			a.out.Commands = append(a.out.Commands, cmd)
		}
	}
	for _, r := range b.out.Redirects {
		a.out.Redirects = appendNew(a.out.Redirects, r)
	}
	for _, as := range b.out.Assignments {
		a.out.Assignments = appendNew(a.out.Assignments, as)
	}
	for _, p := range b.out.Paths {
		a.path(p)
	}
	for _, u := range b.out.URLs {
		a.url(u)
	}
	for _, s := range b.out.Opaque {
		a.opaque(s)
	}
	for _, s := range b.out.Dangerous {
		a.dangerous(s)
	}
	for _, s := range b.out.Problems {
		a.out.Problems = addNew(a.out.Problems, s)
	}
	for _, f := range b.out.Functions {
		a.out.Functions = addNew(a.out.Functions, f)
	}
	if a.funcs == nil {
		a.funcs = b.funcs
	}
	a.seen = a.seen.or(b.seen)
}

// isPlain reports a script that every shell reads alike: words, quotes without
// anything special inside, and the operators ; & | < >.
func isPlain(text string) bool {
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(" \n\t_./,:@%+-;|'\"", c) >= 0:
		case c == '=':
			if i == 0 || strings.IndexByte(" \n\t;|'\"", text[i-1]) >= 0 {
				return false
			}
		case c == '&', c == '<', c == '>':
			if i+1 < len(text) && strings.IndexByte("<>|&", text[i+1]) >= 0 && text[i:i+2] != "&&" && text[i:i+2] != ">>" && text[i:i+2] != ">&" {
				return false
			}
			if strings.HasPrefix(text[i:], "<<") || strings.HasPrefix(text[i:], "&>") || strings.HasPrefix(text[i:], "|&") {
				return false
			}
		default:
			return false
		}
	}
	return !strings.Contains(text, "|&") && !strings.Contains(text, ";;") && !hasReserved(text)
}

// hasReserved finds words that only some shells give a meaning.
func hasReserved(text string) bool {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n\t;|&<>", r) }) {
		switch w {
		case "function", "select", "coproc", "time", "noglob", "nocorrect", "repeat", "foreach", "end", "let", "typeset":
			return true
		}
	}
	return false
}

// otherShell is one whose language is not read here.
func (a *analyser) otherShell(c *call, _ dirSet) {
	a.flag(c, FlagShell)
	if len(c.args) == 0 || strings.HasPrefix(c.args[0].text, "-") || strings.HasPrefix(c.args[0].text, "/") || c.args[0].dynamic {
		a.opaque(c.name + " runs commands in a language that is not read here")
	}
}

// eval runs its arguments in this shell, so it may change the directory too.
func (a *analyser) eval(c *call, d dirSet) (ok, fail dirSet) {
	args := c.args
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	text, known := joined(args)
	if !known {
		a.opaque("eval runs text that is not known")
		return d, d
	}
	end := a.script(text, c.lang, d, "eval", c.line)
	return end, end
}

// trap sets a script that runs later, in this shell.
func (a *analyser) trap(c *call, d dirSet) {
	args := c.args
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) < 2 || strings.HasPrefix(args[0].text, "-") || args[0].text == "" {
		return
	}
	a.flag(c, FlagEval)
	if text, known := joined(args[:1]); known {
		a.script(text, c.lang, d, "trap", c.line)
		return
	}
	a.opaque("trap runs text that is not known")
}

func (a *analyser) source(c *call, _ dirSet) {
	a.flag(c, FlagSource)
	name := "a file"
	if len(c.args) > 0 {
		name = c.args[0].text
	}
	a.opaque(c.name + " runs the commands in " + name)
}

// later hands commands to a service that runs them when nobody watches.
func (a *analyser) later(c *call, _ dirSet) {
	if c.name == "crontab" && len(c.args) > 0 && c.args[0].text == "-l" {
		return
	}
	a.opaque(c.name + " has commands run elsewhere")
}

// remote runs commands on another host.
func (a *analyser) remote(c *call, _ dirSet) {
	a.flag(c, FlagNetwork)
	a.opaque(c.name + " runs commands on another host")
	spec := optionSpec{flags: "1246AaCfGgKkMNnqsTtVvXxYy", values: "BbcDEeFIiJLlmOoPpQRSWw"}
	opts, rest, known := spec.parse(c.args)
	if !known || len(rest) == 0 || rest[0].dynamic {
		return
	}
	host := rest[0].text
	if port, ok := find(opts, "-p"); ok && !port.dynamic && !strings.Contains(host, "://") {
		host += ":" + port.text
	}
	if !strings.Contains(host, "://") {
		host = "ssh://" + host
	}
	a.url(host)
}

// scriptFile lists the file that a shell runs, and what it hands on.
func (a *analyser) scriptFile(c *call, d dirSet) {
	opts, rest, _ := shellOptions.parse(c.args)
	_, inline := find(opts, "-c")
	_, stdin := find(opts, "-s")
	if inline && len(rest) > 0 {
		rest = rest[1:]
	}
	for i, w := range rest {
		if w.text != "-" && !isStandardInput(w.text) && !strings.HasPrefix(w.text, "-") {
			a.wordPath(w, d, false, i == 0 && !inline && !stdin || looksLikePath(w.text))
		}
	}
	if file, ok := find(opts, "--rcfile", "--init-file"); ok {
		a.wordPath(file, d, false, true)
	}
}
