package shell

import (
	"slices"
	"strings"
)

var wrapperSpecs = map[string]optionSpec{
	"env": {flags: "i0v", values: "uCS", assigns: true, dashFlag: true,
		longFlags: "ignore-environment null debug default-signal ignore-signal block-signal list-signal-handling", longs: "unset chdir split-string"},
	"sudo": {flags: "AbEeHiKklnPsSVv", values: "aCcDghpRrTtuU", assigns: true,
		longFlags: "askpass background preserve-env edit set-home login remove-timestamp reset-timestamp list non-interactive preserve-groups shell stdin validate bell",
		longs:     "close-from chdir group host prompt chroot role type command-timeout user other-user"},
	"doas":       {flags: "Lns", values: "aCu"},
	"nohup":      {},
	"nice":       {values: "n", longs: "adjustment", numbers: true},
	"ionice":     {flags: "t", values: "cnpPu", longFlags: "ignore", longs: "class classdata pid pgid uid"},
	"time":       {flags: "apvqlhV", values: "fo", longFlags: "append portability verbose quiet", longs: "format output"},
	"timeout":    {flags: "fpv", values: "ks", longFlags: "foreground preserve-status verbose", longs: "kill-after signal", operands: 1},
	"gtimeout":   {flags: "fpv", values: "ks", longFlags: "foreground preserve-status verbose", longs: "kill-after signal", operands: 1},
	"stdbuf":     {values: "ioe", longs: "input output error"},
	"setsid":     {flags: "cfw", longFlags: "ctty fork wait"},
	"chroot":     {longFlags: "skip-chdir", longs: "userspec groups", operands: 1},
	"taskset":    {flags: "ac", longFlags: "all-tasks cpu-list", operands: 1},
	"chrt":       {flags: "bdfiomprvaR", values: "TPD", longFlags: "batch deadline fifo idle other rr all-tasks reset-on-fork", operands: 1},
	"unbuffer":   {flags: "p"},
	"caffeinate": {flags: "dimsu", values: "tw"},
	"strace": {flags: "cCdfFhiknNqrtTvVwxyYzZ", values: "aAbeEIoOpPsSuUX",
		longFlags: "follow-forks quiet summary-only", longs: "output trace env string-limit"},
	"ltrace":  {flags: "bcCfhiLrStTV", values: "aAeDFlnopsuwx"},
	"busybox": {},
	"toybox":  {},
	"dotenv":  {values: "efp"},
	"winpty":  {},
	"xvfb-run": {flags: "al", values: "efnpsw", longFlags: "auto-servernum auto-display listen-tcp",
		longs: "error-file auth-file server-num wait server-args xauth-protocol"},
}

// wrapper looks into a program that runs the command behind its options.
func (a *analyser) wrapper(c *call, d dirSet) {
	spec := wrapperSpecs[c.name]
	opts, rest, known := spec.parse(c.args)
	if _, split := find(opts, "-S", "--split-string"); !known || split && c.name == "env" {
		a.opaque("what " + c.name + " runs cannot be seen")
		return
	}
	assigns, rest := a.leadingAssigns(spec, rest)
	if len(rest) < spec.operands {
		return
	}
	for _, w := range rest[:spec.operands] {
		if w.many() {
			a.opaque("what " + c.name + " runs cannot be seen")
			return
		}
	}
	rest = rest[spec.operands:]
	if len(rest) == 0 {
		a.note(assigns, "")
		if c.name == "sudo" || c.name == "doas" {
			a.opaque(c.name + " starts a shell")
		}
		return
	}
	a.flag(c, FlagWrapper)
	inner := c.inner(rest)
	inner.assigns = assigns
	inner.altered = c.altered || len(opts) > 0 && c.name == "env" || len(c.args) > 0 && c.args[0].text == "-" || !keepsEnvironment(c.name)
	if dir, ok := find(opts, "-C", "-D", "--chdir"); ok && (c.name == "env" || c.name == "sudo") {
		if dir.dynamic {
			a.opaque("where " + c.name + " runs its command cannot be seen")
		} else {
			d = dirSet{at: d.in(dir.text), lost: d.lost}
		}
	}
	if c.name == "chroot" {
		a.opaque("chroot runs another system's programs")
	}
	a.run(inner, d)
}

// keepsEnvironment knows the wrappers that leave environment, user and system
// of what they run as they are.
func keepsEnvironment(name string) bool {
	return has("env nohup nice ionice time timeout gtimeout stdbuf setsid taskset chrt caffeinate", name)
}

// leadingAssigns takes NAME=value words off, where the program allows them.
func (a *analyser) leadingAssigns(spec optionSpec, words []word) ([]Assign, []word) {
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
		a.opaque("what " + c.name + " runs cannot be seen")
		return d, d
	}
	if _, asks := find(opts, "-v", "-V"); asks || len(rest) == 0 {
		return d, d
	}
	a.flag(c, FlagWrapper)
	inner := c.inner(rest)
	inner.altered = c.altered || len(opts) > 0
	ok, fail = a.run(inner, d)
	if c.name == "exec" {
		return dirSet{}, d // the shell is gone
	}
	return ok, fail
}

// xargs appends what it reads to the command.
func (a *analyser) xargs(c *call, d dirSet) {
	spec := optionSpec{flags: "0rtpxoiel", values: "adEILnPsJR",
		longFlags: "null no-run-if-empty verbose interactive exit open-tty show-limits eof replace max-lines",
		longs:     "arg-file delimiter max-args max-procs max-chars process-slot-var"}
	opts, rest, known := spec.parse(c.args)
	if !known {
		a.opaque("what xargs runs cannot be seen")
		return
	}
	if len(rest) == 0 {
		return
	}
	a.flag(c, FlagWrapper)
	a.run(a.fed(c, rest, replacement(opts)), d)
}

// replacement is the text that xargs replaces, or "" if it appends.
func replacement(opts []option) string {
	if w, ok := find(opts, "-I", "-J", "--replace", "-i"); ok {
		if w.text == "" {
			return "{}"
		}
		return w.text
	}
	return ""
}

// fed makes a call whose arguments come in part from elsewhere.
func (a *analyser) fed(c *call, words []word, placeholder string) call {
	list := make([]word, 0, len(words)+1)
	for _, w := range words {
		if placeholder != "" && strings.Contains(w.text, placeholder) {
			w.dynamic = true
		}
		list = append(list, w)
	}
	if placeholder == "" {
		list = append(list, word{text: "(read by " + c.name + ")", dynamic: true})
	}
	in := c.inner(list)
	in.stdin, in.piped = nil, false
	return in
}

// parallel builds scripts from a template and a list.
func (a *analyser) parallel(c *call, d dirSet) {
	words := c.args
	for i, w := range words {
		if strings.HasPrefix(w.text, ":::") {
			words = words[:i]
			break
		}
	}
	for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
		words = words[1:]
	}
	a.opaque("parallel builds its commands when it runs")
	if len(words) == 0 {
		return
	}
	placeholder := ""
	if slices.ContainsFunc(words, func(w word) bool { return strings.Contains(w.text, "{") }) {
		placeholder = "{"
	}
	a.flag(c, FlagWrapper)
	a.run(a.fed(c, words, placeholder), d)
}

// watch hands its words to sh -c.
func (a *analyser) watch(c *call, d dirSet) {
	spec := optionSpec{flags: "bcdegprtwxCdh", values: "nq", longFlags: "beep color no-color differences errexit chgexit precise no-rerun no-title no-wrap exec",
		longs: "interval equexit"}
	opts, rest, known := spec.parse(c.args)
	if !known {
		a.opaque("what watch runs cannot be seen")
		return
	}
	if len(rest) == 0 {
		return
	}
	a.flag(c, FlagWrapper)
	if _, exec := find(opts, "-x", "--exec"); exec {
		a.run(c.inner(rest), d)
		return
	}
	a.handOver(c, rest, d)
}

// handOver treats words as a script that c gives to a plain shell.
func (a *analyser) handOver(c *call, words []word, d dirSet) {
	text, ok := joined(words)
	if !ok {
		a.opaque("what " + c.name + " runs cannot be seen")
		return
	}
	a.plainScript(text, c, d)
}

// flock runs a command or, with -c, a script, while it holds a lock.
func (a *analyser) flock(c *call, d dirSet) {
	spec := optionSpec{flags: "senuxoFv", values: "wEc", longFlags: "shared exclusive nonblock unlock close no-fork verbose",
		longs: "timeout wait conflict-exit-code command"}
	opts, rest, known := spec.parse(c.args)
	if script, ok := find(opts, "-c", "--command"); ok && known {
		a.flag(c, FlagWrapper)
		a.handOver(c, []word{script}, d)
		return
	}
	if !known || len(rest) > 0 && rest[0].dynamic {
		a.opaque("what flock runs cannot be seen")
		return
	}
	if len(rest) < 2 {
		return
	}
	a.flag(c, FlagWrapper)
	if rest = rest[1:]; rest[0].text == "-c" || rest[0].text == "--command" {
		a.handOver(c, rest[1:], d)
		return
	}
	a.run(c.inner(rest), d)
}

// withScript looks for the script that su, runuser and script take with -c.
func (a *analyser) withScript(c *call, d dirSet) {
	for i, w := range c.args {
		if w.dynamic {
			break
		}
		value, glued := strings.CutPrefix(w.text, "--command=")
		cluster := len(w.text) > 1 && w.text[0] == '-' && w.text[1] != '-' && strings.HasSuffix(w.text, "c")
		switch {
		case glued:
			a.flag(c, FlagWrapper)
			a.handOver(c, []word{{text: value}}, d)
			return
		case (cluster || w.text == "--command" || w.text == "--session-command") && i+1 < len(c.args):
			a.flag(c, FlagWrapper)
			a.handOver(c, c.args[i+1:i+2], d)
			return
		}
	}
	a.opaque(c.name + " starts a shell")
}
