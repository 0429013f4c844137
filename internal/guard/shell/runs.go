package shell

import (
	"regexp"
	"slices"
	"strings"
)

// wrapperSpecs are the programs that run the command behind their options and
// leave it at that. The options of others are not known: see hidden.
var wrapperSpecs = map[string]optionSpec{
	"env": {flags: "i0v", values: "uC", assigns: true, dashFlag: true,
		longFlags: "ignore-environment null debug default-signal ignore-signal block-signal list-signal-handling", longs: "unset chdir"},
	"nohup":   {},
	"nice":    {values: "n", longs: "adjustment", numbers: true},
	"ionice":  {flags: "t", values: "cnpPu", longFlags: "ignore", longs: "class classdata pid pgid uid"},
	"time":    {flags: "apvqlhV", values: "fo", longFlags: "append portability verbose quiet", longs: "format output"},
	"timeout": {flags: "fpv", values: "ks", longFlags: "foreground preserve-status verbose", longs: "kill-after signal", operands: 1},
	"stdbuf":  {values: "ioe", longs: "input output error"},
}

const (
	// launchers run a command that stands among their words.
	launchers = "sudo doas gtimeout setsid taskset chrt unbuffer caffeinate strace ltrace busybox toybox winpty xargs gxargs find gfind fd fdfind"
	// hidden run what their arguments, a file or their input says, in ways that
	// are not followed.
	hidden = "socat chroot dotenv xvfb-run parallel watch flock su runuser script at batch crontab systemd-run ssh mosh eval trap source . " +
		"fish csh tcsh pwsh powershell cmd nu elvish xonsh osascript wsl zsh ksh mksh ksh93 yash"
)

// runs looks into programs that run others.
func (a *analyser) runs(c *call, d dirSet) {
	switch {
	case c.name == "crontab" && len(c.args) == 1 && c.args[0].text == "-l":
	case c.name == "find" || c.name == "gfind" || c.name == "fd" || c.name == "fdfind":
		if runsForEach(c) {
			a.conceals(c, d)
		}
	case has(hidden, c.name) || has(launchers, c.name):
		a.conceals(c, d)
	case shellNames[c.name]:
		a.shell(c, d)
	case c.name == "git":
		a.git(c, d)
	case c.name == "awk" || c.name == "gawk" || c.name == "mawk" || c.name == "nawk":
		a.awk(c)
	case c.name == "sed" || c.name == "gsed":
		a.sed(c, d)
	case isInterpreter(c.name):
		a.interpreter(c)
	}
	if _, wraps := wrapperSpecs[c.name]; wraps {
		a.wrapper(c, d)
	}
	for o := range strings.FieldsSeq(programOptions[c.name]) {
		if slices.ContainsFunc(c.args, func(w word) bool { return mayBeOption(w.text, o) }) {
			a.conceals(c, d)
		}
	}
}

// conceals says that a command runs something that is not followed. What it
// may be is listed all the same, for rules that deny: every command that could
// begin at one of its words, with the files that it would name.
func (a *analyser) conceals(c *call, d dirSet) {
	var tokens []word
	certain := has(launchers, c.name)
	for _, w := range c.args {
		certain = certain && !w.dynamic && !strings.ContainsAny(w.text, "$`\\'\"*?[{~")
		for _, token := range strings.FieldsFunc(w.text, func(r rune) bool { return strings.ContainsRune(" \t\n;|&<>()'\"`=,", r) }) {
			tokens = append(tokens, word{text: token, dynamic: w.dynamic})
			name := programName(token)
			certain = certain && !has(hidden, name) && !shellNames[name] && !isInterpreter(name) && !has("sed gsed awk gawk", name)
		}
	}
	named := slices.ContainsFunc(tokens, func(w word) bool { return w.text[0] != '-' })
	if !certain || !named || len(tokens) > maxWrapping {
		a.opaque("what " + c.name + " runs cannot be seen")
	}
	a.out.Commands[c.index].Dynamic = true
	for i, w := range tokens[:min(len(tokens), maxWrapping)] {
		if w.text[0] == '-' || w.dynamic || c.name == "ssh" || c.name == "mosh" {
			continue
		}
		in := c.inner(append(slices.Clone(tokens[i:]), word{text: "…", dynamic: true}))
		in.name = programName(w.text)
		a.record(&in, d)
		in.args = tokens[i+1:]
		if _, known := usages[in.name]; known && a.err == nil {
			a.manner = mannerOf(&in)
			a.mentions(&in, d)
			a.manner = mannerOf(c)
		} else {
			a.wordPath(w, d, false, isRooted(w.text))
		}
	}
}

// wrapper looks into a program that runs the command behind its options.
func (a *analyser) wrapper(c *call, d dirSet) {
	spec := wrapperSpecs[c.name]
	opts, rest, known := spec.parse(c.args)
	if !known {
		a.conceals(c, d)
		return
	}
	assigns, rest := leadingAssigns(spec, rest)
	if len(rest) < spec.operands {
		return
	}
	if slices.ContainsFunc(rest[:spec.operands], word.many) {
		a.conceals(c, d)
		return
	}
	rest = rest[spec.operands:]
	if len(rest) == 0 {
		a.note(assigns, "")
		return
	}
	a.out.Commands[c.index].Wrapper = true
	inner := c.inner(rest)
	inner.assigns = assigns
	inner.altered = c.altered || c.name == "env" && (len(opts) > 0 || c.args[0].text == "-")
	if dir, ok := find(opts, "-C", "--chdir"); ok && c.name == "env" {
		if dir.dynamic {
			a.opaque("where env runs its command cannot be seen")
		} else {
			d = dirSet{at: d.in(dir.text), lost: d.lost}
		}
	}
	a.run(inner, d)
}

// leadingAssigns takes NAME=value words off, where the program allows them.
func leadingAssigns(spec optionSpec, words []word) ([]Assign, []word) {
	if !spec.assigns {
		return nil, words
	}
	var list []Assign
	for len(words) > 0 {
		w := words[0]
		name, value, ok := strings.Cut(w.text, "=")
		switch {
		case w.dynamic && !w.splits && ok && isName(name): // env X="$y" cmd
			list = append(list, Assign{Name: name, Value: value, Dynamic: true})
		case w.dynamic || !ok:
			return list, words
		default:
			list = append(list, Assign{Name: name, Value: value})
		}
		words = words[1:]
	}
	return list, words
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && s[i] != '_' && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}

// prefix looks into the builtins command, builtin and exec. Unlike a program
// they may change the shell itself.
func (a *analyser) prefix(c *call, d dirSet) (ok, fail dirSet) {
	spec := map[string]optionSpec{"command": {flags: "pvV"}, "builtin": {}, "exec": {flags: "cl", values: "a"}}[c.name]
	opts, rest, known := spec.parse(c.args)
	if !known {
		a.conceals(c, d)
		return d, d
	}
	if _, asks := find(opts, "-v", "-V"); asks || len(rest) == 0 {
		return d, d
	}
	a.out.Commands[c.index].Wrapper = true
	inner := c.inner(rest)
	inner.altered = c.altered || len(opts) > 0
	ok, fail = a.run(inner, d)
	if c.name == "exec" {
		return dirSet{}, d // the shell is gone
	}
	return ok, fail
}

var shellOptions = optionSpec{flags: "abcefhiklmnprtuvxBCDEHPT", values: "oO", plusMinus: true, dashEnds: true,
	longFlags: "login norc noprofile posix verbose noediting restricted debugger"}

// shell looks into the script of bash -c and sh -c. A script file is a program
// like any other, and what comes by the standard input is not followed.
func (a *analyser) shell(c *call, d dirSet) {
	opts, rest, known := shellOptions.parse(c.args)
	_, inline := find(opts, "-c")
	switch {
	case !known || len(rest) == 0 || rest[0].many() || rest[0].dynamic || rest[0].tilde || !inline && isStandardInput(rest[0].text):
		a.conceals(c, d)
	case inline:
		// sh is bash on some systems and another shell on others.
		if c.name != "bash" && (!plain.MatchString(rest[0].text) || reserved.MatchString(rest[0].text)) {
			a.opaque(c.name + " may read its script differently from bash")
		}
		a.script(rest[0].text, d, c.name)
	}
}

var (
	// plain are scripts that all shells read alike.
	plain = regexp.MustCompile(`^(?:[\w \n./,:@%+'"-]|\$\w|\d>&\d|[<>]>? ?[\w./'"]|[\w '"](?:&&|\|\||[;|])[\w \n'"./])+$`)
	// reserved words have a meaning only in some.
	reserved = regexp.MustCompile(`\b(function|select|coproc|time|noglob|nocorrect|repeat|foreach|end|let|typeset)\b`)
)

func isStandardInput(path string) bool {
	return path == "-" || path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/")
}

// interpreters run code of another language.
const interpreters = `python pypy perl ruby node nodejs deno bun php lua luajit rscript tclsh julia elixir erl groovy guile racket jshell swift ghc ocaml octave irb r`

func isInterpreter(name string) bool {
	return has(interpreters, name) || has(interpreters, strings.TrimRight(name, "0123456789."))
}

// interpreter refuses code that comes from the standard input.
func (a *analyser) interpreter(c *call) {
	i := slices.IndexFunc(c.args, func(w word) bool { return w.dynamic || w.text == "" || w.text[0] != '-' || w.text == "-" })
	if i < 0 && !hasOption(c.args, "--version", "-V", "-v", "--help", "-h") || i >= 0 && isStandardInput(c.args[i].text) {
		a.opaque(c.name + " runs what it reads from its standard input")
	}
}

// scriptFlags are words that may stand in front of the script of a program. A
// program that is here runs files and is no interpreter, or takes options.
var scriptFlags = map[string]string{
	"python": "-u -B -E -I -O -OO -P -q -s -S", "node": "--no-warnings --no-deprecation --enable-source-maps --experimental-strip-types",
	"deno": "run -A -q --quiet --no-prompt --allow-all --allow-net --allow-env --allow-read --allow-write --allow-run", "bun": "run",
	"uv": "run", "tsx": "", "ts-node": "", "java": "-jar", "dotnet": "exec",
}

// script returns which argument is the file that an interpreter runs, or -1. A
// word in front of it that is not known may take it as its value, and then it
// is a file that is read.
func (c *call) script() int {
	flags, known := scriptFlags[strings.TrimRight(c.name, "0123456789.")]
	if !known && !isInterpreter(c.name) && !shellNames[c.name] {
		return -1
	}
	for i, w := range c.args {
		switch {
		case w.dynamic || w.pattern != "" || w.text == "" || w.text[0] == '@':
			return -1
		case has(flags, w.text) || strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "="):
		case w.text[0] == '-':
			return -1
		default:
			return i
		}
	}
	return -1
}

// programOptions are the options of well-known programs whose value is a
// command that they run.
var programOptions = map[string]string{
	"rg": "--pre --hostname-bin", "sort": "--compress-program", "split": "--filter", "man": "-P --pager -H",
	"tar": tarOptions, "gtar": tarOptions, "bsdtar": tarOptions,
	"rsync": "-e --rsh --rsync-path", "scp": "-S", "sftp": "-S", "go": "-exec -toolexec -vettool",
	"wget": "--use-askpass", "tcpdump": "-z", "zip": "-TT --unzip-command", "cpio": "--rsh-command",
	"vim": editorOptions, "vi": editorOptions, "nvim": editorOptions, "ex": editorOptions, "view": editorOptions, "less": editorOptions, "more": editorOptions,
	"ed": editorOptions, "emacs": "--eval -f",
	"nc": "-e -c", "ncat": "-e -c --exec --sh-exec --lua-exec", "netcat": "-e -c", "cargo": "--config",
	"npx": "-c --call", "npm": "--script-shell --call",
}

const (
	tarOptions    = "--to-command --checkpoint-action -I --use-compress-program -F --info-script --new-volume-script --rsh-command"
	editorOptions = "+ -c -S -s --cmd"
)

// mayBeOption says whether a word is an option, shortened, glued to its value
// or among other letters.
func mayBeOption(text, option string) bool {
	name, _, _ := strings.Cut(text, "=")
	switch {
	case strings.HasPrefix(option, "--"):
		return len(name) > 3 && strings.HasPrefix(option, name)
	case len(option) == 2 && option[0] == '-':
		return len(text) > 1 && text[0] == '-' && text[1] != '-' && strings.IndexByte(text, option[1]) > 0
	}
	return strings.HasPrefix(strings.ToLower(text), option)
}

// git knows the ways in which git runs other programs.
func (a *analyser) git(c *call, d dirSet) {
	sub := len(c.args)
	at := d
	for i := 0; i < len(c.args) && sub == len(c.args); i++ {
		text := c.args[i].text
		switch {
		case text == "-C" && i+1 < len(c.args):
			if i++; c.args[i].dynamic || c.args[i].pattern != "" {
				at.lost = true
			} else if c.args[i].text != "" {
				at = dirSet{at: at.in(c.args[i].text), lost: at.lost}
			}
		case text == "-c" || text == "--config-env":
			if i+1 < len(c.args) {
				a.gitSetting(c.args[i+1])
			}
			i++
		case strings.HasPrefix(text, "--config-env="):
			a.gitSetting(word{text: text[len("--config-env="):], dynamic: true})
		case strings.HasPrefix(text, "--exec-path="):
			a.dangerous("git --exec-path changes which programs git runs")
		case text == "-C" || text == "--git-dir" || text == "--work-tree" || text == "--namespace":
			i++
		case !strings.HasPrefix(text, "-"):
			sub = i
		}
	}
	a.out.Commands[c.index].Dirs, a.out.Commands[c.index].Lost = at.at, at.lost
	if sub == len(c.args) {
		return
	}
	name, args := c.args[sub].text, c.args[sub+1:]
	for _, w := range args {
		switch option, _, _ := strings.Cut(w.text, "="); {
		case has("--ext-diff --textconv", option):
			a.dangerous("git " + option + " runs programs that the repository's settings name")
		case has("--upload-pack --receive-pack --exec --extcmd --open-files-in-pager", option), strings.HasPrefix(w.text, "ext::"),
			has("rebase difftool", name) && mayBeOption(w.text, "-x"), name == "grep" && strings.HasPrefix(w.text, "-O"),
			name == "bisect" && w.text == "run", name == "submodule" && w.text == "foreach":
			a.conceals(c, d)
		}
	}
	switch {
	case has("filter-branch filter-repo mergetool instaweb send-email daemon cvsserver", name):
		a.conceals(c, d)
	case name == "config" && (len(args) == 0 || !has("--get --get-all --get-regexp --list -l get list", args[0].text)):
		for _, w := range args {
			a.gitSetting(w)
		}
	}
}

// gitSetting flags the settings that name programs or other places.
func (a *analyser) gitSetting(w word) {
	key, _, _ := strings.Cut(strings.ToLower(w.text), "=")
	if w.dynamic && !strings.Contains(key, ".") {
		a.dangerous("a setting of git that is not known")
		return
	}
	if gitPrograms.MatchString(key) {
		a.dangerous("git's setting " + key + " changes what git runs or where it looks")
	}
}

var gitPrograms = regexp.MustCompile(`^(alias\.|pager\.|filter\.|include\.|includeif\.|url\.|credential\.|protocol\.|browser\.|man\.|` +
	`diff\..*(command|textconv|external)|merge\..*driver|(merge|diff)tool\..*|gpg\.|.*\.(program|cmd|path|helper|sshcommand|editor|pager|askpass|gitproxy|proxy|textconv)$|` +
	`core\.(pager|editor|sshcommand|hookspath|fsmonitor|askpass|gitproxy|worktree|attributesfile|excludesfile|alternaterefscommand|bare)|` +
	`diff\.external|sequence\.editor|ssh\.|uploadpack\.|receive\.|remote\..*|interactive\.difffilter|http\.|safe\.|extensions\.|trailer\.|sendemail\.|init\.templatedir)`)

// awk programs can run commands and write files. Only a few options are known.
func (a *analyser) awk(c *call) {
	for _, w := range c.args {
		if w.dynamic || w.pattern != "" || awkRuns.MatchString(w.text) || strings.HasPrefix(w.text, "-") && !awkOption.MatchString(w.text) {
			a.opaque(c.name + "'s program may run commands or write files")
		}
	}
}

var (
	awkRuns   = regexp.MustCompile(`system|getline|close|@|[^|]\|([^|]|$)|\|&|print[^;}]*>`)
	awkOption = regexp.MustCompile(`^(--|-[Fvf].*)$`)
)

// sed scripts can run commands (e) and write files (w). Only simple ones are
// known to do neither.
func (a *analyser) sed(c *call, d dirSet) {
	if slices.ContainsFunc(c.args, func(w word) bool { return w.splits }) {
		a.opaque("which script sed runs is not known")
	}
	given := givesPattern(usages["sed"], c.args)
	for i, w := range c.args {
		switch {
		case strings.HasPrefix(w.text, "-") && !sedOption.MatchString(w.text):
			a.opaque("which script sed runs cannot be seen")
			continue
		case sedOption.MatchString(w.text):
			script, long := strings.CutPrefix(w.text, "--expression=")
			if !long {
				continue
			}
			w.text = script
		case given && (i == 0 || !has("-e -ne -ie --expression", c.args[i-1].text)):
			continue
		}
		if w.dynamic || w.pattern != "" || !sedPlain.MatchString(w.text) {
			a.opaque("sed's script may run commands or write files")
		}
		for _, m := range sedWrites.FindAllStringSubmatch(w.text, -1) {
			a.wordPath(word{text: strings.TrimSpace(m[1])}, d, true, true)
		}
		if !given && w.text != "" { // sed -i '' on BSD
			break
		}
	}
}

var (
	sedOption = regexp.MustCompile(`^(-[nErsuz]*(e|f|i.*)?|--(quiet|silent|regexp-extended|in-place.*|separate|unbuffered|null-data|posix|debug|sandbox|expression.*|file=?.*))$`)
	sedWrites = regexp.MustCompile(`[wW]\s+([^\n]+)`)
	sedPlain  = func() *regexp.Regexp {
		address := `(\d+|\$|\d+~\d+|/([^/\\\[\n]|\\.|\[[^]\n/]+\])*/I?)`
		commands := `[pdqPDgGhHnNxz=]|:\w+|[btT] ?\w*|[aic](?: |\\\n)[^\n\\]*`
		for _, delim := range []string{"/", `\|`, "#", ",", ":", "@"} {
			part := `([^\\\[\n` + delim + `]|\\.|\[[^]\n` + delim + `]+\])*`
			commands += "|s" + delim + part + delim + part + delim + `[gpIim\d]*`
		}
		one := `[\s{}]*(` + address + `(,` + address + `|,\+\d+)?\s*!?[\s{]*)?(` + commands + `)?[\s}]*`
		return regexp.MustCompile(`^` + one + `([;\n]` + one + `)*$`)
	}()
)
