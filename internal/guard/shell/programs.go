package shell

import (
	"regexp"
	"slices"
	"strings"
)

// isInterpreter knows programs that run code of another language.
func isInterpreter(name string) bool {
	if _, ok := codeOptions[name]; ok {
		return true
	}
	_, ok := codeOptions[strings.TrimRight(name, "0123456789.")]
	return ok
}

// codeOptions are the options that are followed by code.
var codeOptions = map[string]string{
	"python": "-c", "pypy": "-c", "perl": "-e -E", "ruby": "-e", "node": "-e -p --eval --print -pe", "nodejs": "-e -p --eval --print", "deno": "eval",
	"bun": "-e -p --eval --print", "php": "-r", "lua": "-e", "luajit": "-e", "rscript": "-e", "tclsh": "", "julia": "-e -E", "elixir": "-e",
	"erl": "-eval", "groovy": "-e", "guile": "-c -e", "racket": "-e", "jshell": "", "swift": "-e", "ghc": "-e", "ocaml": "-e", "octave": "--eval", "irb": "", "r": "-e",
}

// interpreter flags code among the arguments, and refuses code that comes from
// the standard input.
func (a *analyser) interpreter(c *call) {
	options := strings.Fields(codeOptionsOf(c.name))
	operand := false
	for _, w := range c.args {
		text := w.text
		name, _, _ := strings.Cut(text, "=")
		if slices.Contains(options, name) {
			a.flag(c, FlagCode)
			return
		}
		// -ne, -pe, -c'…'
		if len(text) > 2 && text[0] == '-' && text[1] != '-' && slices.ContainsFunc(options, func(o string) bool {
			return len(o) == 2 && strings.IndexByte(text, o[1]) > 0
		}) {
			a.flag(c, FlagCode)
			return
		}
		if w.dynamic || text == "" || text[0] != '-' {
			operand = true
			break
		}
		if text == "--version" || text == "-V" || text == "-v" || text == "--help" || text == "-h" || text == "-m" {
			return
		}
	}
	if operand && !isStandardInput(c.args[0].text) {
		return
	}
	if c.stdin != nil && !c.stdin.dynamic {
		a.flag(c, FlagCode)
		return
	}
	a.opaque(c.name + " runs what it reads from its standard input")
}

// scriptFlags are words that may stand in front of the script of a program. A
// program that is here runs files and is not in codeOptions, or takes options.
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

func codeOptionsOf(name string) string {
	if options, ok := codeOptions[name]; ok {
		return options
	}
	return codeOptions[strings.TrimRight(name, "0123456789.")]
}

// endsInCode reports -ne and its like: the next word is code.
func endsInCode(name, option string) bool {
	for o := range strings.FieldsSeq(codeOptionsOf(name)) {
		if len(o) == 2 && len(option) > 2 && option[1] != '-' && option[len(option)-1] == o[1] {
			return true
		}
	}
	return false
}

// programOptions are the options of well-known programs whose value is a
// command that they run.
var programOptions = map[string][]string{
	"rg": {"--pre", "--hostname-bin"}, "sort": {"--compress-program"}, "split": {"--filter"}, "man": {"-P", "--pager", "-H"},
	"tar":   {"--to-command", "--checkpoint-action", "-I", "--use-compress-program", "-F", "--info-script", "--new-volume-script", "--rsh-command"},
	"gtar":  {"--to-command", "--checkpoint-action", "-I", "--use-compress-program", "-F", "--info-script", "--new-volume-script", "--rsh-command"},
	"rsync": {"-e", "--rsh", "--rsync-path"}, "scp": {"-S"}, "sftp": {"-S"}, "go": {"-exec", "-toolexec", "-vettool"},
	"wget": {"--use-askpass"}, "tcpdump": {"-z"}, "zip": {"-TT", "--unzip-command"}, "less": {}, "cpio": {"--rsh-command"},
	"vim": {"-c", "--cmd"}, "vi": {"-c"}, "nvim": {"-c", "--cmd"}, "ex": {"-c"}, "emacs": {"--eval", "-f"},
	"nc": {"-e", "-c"}, "ncat": {"-e", "-c", "--exec", "--sh-exec", "--lua-exec"}, "netcat": {"-e", "-c"}, "curl": {}, "cargo": {"--config"},
	"npx": {"-c", "--call"}, "npm": {"--script-shell", "--call"}, "docker": {}, "entr": {}, "tmux": {}, "screen": {}, "socat": {},
}

// programs looks for commands that are given as values of options.
func (a *analyser) programs(c *call, d dirSet) {
	for i, w := range c.args {
		for _, o := range programOptions[c.name] {
			value, found := optionValue(c.args, i, o)
			if !found {
				continue
			}
			value.text = strings.TrimPrefix(value.text, "exec=")
			if value.dynamic {
				a.opaque("what " + c.name + " " + o + " runs is not known")
				continue
			}
			a.flag(c, FlagWrapper)
			a.handOver(c, []word{value}, d)
		}
		if c.name == "socat" {
			upper := strings.ToUpper(w.text)
			if strings.Contains(upper, "EXEC:") || strings.Contains(upper, "SYSTEM:") || strings.Contains(upper, "SHELL:") {
				a.opaque("socat runs a command")
			}
		}
		if isEditor(c.name) && (strings.HasPrefix(w.text, "+") || strings.HasPrefix(w.text, "-c") || strings.HasPrefix(w.text, "-S") || strings.HasPrefix(w.text, "-s")) {
			a.opaque(c.name + " runs editor commands")
		}
	}
}

func isEditor(name string) bool {
	switch name {
	case "vim", "vi", "nvim", "ex", "view", "less", "more", "ed":
		return true
	}
	return false
}

// optionValue returns the value of option o if it stands at args[i]: glued to
// it, behind an equals sign, or as the next word.
func optionValue(args []word, i int, o string) (word, bool) {
	text := args[i].text
	if name, value, glued := strings.Cut(text, "="); len(name) > 4 && len(o) > len(name) && strings.HasPrefix(name, "--") && strings.HasPrefix(o, name) {
		if text = o; glued { // a name may be shortened
			text += "=" + value
		}
	}
	if text == o {
		if i+1 < len(args) {
			return args[i+1], true
		}
		return word{}, false
	}
	short := len(o) == 2 && o[1] != '-'
	if short && len(text) > 2 && text[0] == '-' && text[1] != '-' && text[len(text)-1] == o[1] && isLetters(text[1:]) && i+1 < len(args) {
		return args[i+1], true // the last of several letters
	}
	rest, ok := strings.CutPrefix(text, o)
	if !ok || len(rest) == 0 {
		return word{}, false
	}
	if rest[0] == '=' {
		return word{text: rest[1:], dynamic: args[i].dynamic}, true
	}
	if short {
		return word{text: rest, dynamic: args[i].dynamic}, true
	}
	return word{}, false
}

func isLetters(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }) < 0
}

// git knows the ways in which git runs other programs.
func (a *analyser) git(c *call, d dirSet) {
	sub := len(c.args)
	at := d
	for i := 0; i < len(c.args); i++ {
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
		if sub < len(c.args) {
			break
		}
	}
	a.out.Commands[c.index].Dirs, a.out.Commands[c.index].Lost = at.at, at.lost
	if sub == len(c.args) {
		return
	}
	args := c.args[sub+1:]
	for i, w := range args {
		for o, shells := range map[string]bool{"--upload-pack": true, "--receive-pack": true, "--exec": true, "--extcmd": true,
			"--open-files-in-pager": true, "--ext-diff": false, "--textconv": false} {
			if w.text == o && !shells {
				a.dangerous("git " + o + " runs programs that the repository's settings name")
			}
			if value, ok := optionValue(args, i, o); ok && shells {
				a.flag(c, FlagWrapper)
				a.handOver(c, []word{value}, d)
			}
		}
		if strings.HasPrefix(w.text, "ext::") {
			a.opaque("git's ext:: addresses run commands")
		}
	}
	a.gitCommand(c, c.args[sub].text, args, d)
}

func (a *analyser) gitCommand(c *call, sub string, args []word, d dirSet) {
	switch sub {
	case "bisect":
		if len(args) > 1 && args[0].text == "run" {
			a.flag(c, FlagWrapper)
			a.run(c.inner(args[1:]), d)
		}
	case "submodule":
		for i, w := range args {
			if w.text == "foreach" {
				rest := args[i+1:]
				for len(rest) > 0 && strings.HasPrefix(rest[0].text, "-") {
					rest = rest[1:]
				}
				a.flag(c, FlagWrapper)
				a.handOver(c, rest, d)
			}
		}
	case "rebase", "difftool":
		for i := range args {
			if value, ok := optionValue(args, i, "-x"); ok {
				a.flag(c, FlagWrapper)
				a.handOver(c, []word{value}, d)
			}
		}
	case "grep":
		for _, w := range args {
			if strings.HasPrefix(w.text, "-O") {
				a.dangerous("git grep -O runs a program on what it finds")
			}
		}
	case "filter-branch", "filter-repo", "mergetool", "instaweb", "send-email", "daemon", "cvsserver":
		a.opaque("git " + sub + " runs other commands")
	case "config":
		if len(args) > 0 && has("--get --get-all --get-regexp --list -l get list", args[0].text) {
			return
		}
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

// awk programs can run commands and write files.
func (a *analyser) awk(c *call, _ dirSet) {
	spec := optionSpec{flags: "bcCdDghILMnNoOpPrsStV", values: "eEfFivl", longFlags: "posix re-interval sandbox traditional csv", longs: "field-separator assign file source"}
	opts, rest, known := spec.parse(c.args)
	if !known {
		a.opaque("which program " + c.name + " runs cannot be seen")
		return
	}
	var programs []word
	_, fromFile := find(opts, "-f", "--file", "-E") // a file is a script like any other
	for _, o := range opts {
		if o.name == "-e" || o.name == "--source" {
			programs = append(programs, o.value)
		}
	}
	if len(programs) == 0 && !fromFile && len(rest) > 0 {
		programs = rest[:1]
	}
	for _, p := range programs {
		switch {
		case p.dynamic || p.pattern != "":
			a.opaque("which program " + c.name + " runs is not known")
		case awkRuns.MatchString(p.text):
			a.opaque(c.name + "'s program may run commands or write files")
		}
	}
}

var awkRuns = regexp.MustCompile(`system|getline|close|@|[^|]\|([^|]|$)|\|&|print[^;}]*>`)
