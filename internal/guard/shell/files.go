package shell

import (
	"slices"
	"strings"
)

// mentions lists the paths and addresses among the arguments of a command.
func (a *analyser) mentions(c *call, d dirSet) {
	a.addresses(c)
	listed := len(a.out.Paths)
	a.files(c, d)
	a.downloads(c, d)
	a.globs(c, d, a.out.Paths[listed:])
}

func (a *analyser) files(c *call, d dirSet) {
	u, known := usages[c.name]
	if first := c.words[0]; !first.dynamic && strings.ContainsAny(first.text, "/~") {
		first.runs = true
		a.wordPath(first, d, false, true)
	}
	if i := c.script(); i >= 0 {
		c.args = slices.Clone(c.args) // a wrapper in front has the same words
		c.args[i].runs = true
	}
	if c.name == "find" || c.name == "gfind" {
		a.findPaths(c, u, d)
		return
	}
	if _, wraps := wrapperSpecs[c.name]; wraps {
		u.text = true
	}
	d = a.relativeTo(c, u, d)
	args := a.operands(c, u, d)
	if u.text {
		return
	}
	if len(args) == 0 && a.manner.reach != ReachNames && a.manner.reach != ReachWords && searchesHere(c) {
		args = []word{{text: "."}}
	}
	if c.name == "[" && len(args) > 0 && args[len(args)-1].text == "]" {
		args = args[:len(args)-1]
	}
	if u.most > 0 {
		args = args[:min(u.most, len(args))]
	}
	if hasOption(c.args, "--reference") && u.writes == writesAll {
		u.skip = 0 // instead of a mode or an owner
	}
	last := u.writes == writesLast && len(args) > 1 && !hasOption(c.args, "-t", "--target-directory")
	all := u.writes == writesAll || editsInPlace(c)
	for i, w := range args {
		if i < u.skip && (!u.commands || !isRooted(w.text)) || w.text == "-" || takesRemotePaths(c.name) && isRemotePath(w.text) {
			continue
		}
		write := all || last && i == len(args)-1
		certain := known && !u.commands && !isAddress(w.text)
		if key, value, ok := strings.Cut(w.text, "="); ok && !w.dynamic {
			// if=file, of=file, DESTDIR=/usr
			if c.name == "dd" && (key == "of" || key == "if") || c.name != "dd" && looksLikePath(value) {
				a.wordPath(word{text: value}, d, write || key == "of", true)
			}
			if c.name == "dd" || !certain {
				continue
			}
		}
		a.wordPath(w, d, write, certain || looksLikePath(w.text))
	}
	switch c.name {
	case "tar", "gtar", "bsdtar": // the files may be read as well as written
		for _, w := range args {
			a.wordPath(w, d, false, true)
		}
		if slices.ContainsFunc(c.args, func(w word) bool {
			return w.dynamic || mayBeOption(w.text, "-x") || mayBeOption(w.text, "--extract") || mayBeOption(w.text, "--get")
		}) || strings.Contains(c.args[0].text, "x") {
			a.unknownPath(".", d)
		}
	case "unzip", "patch", "cpio", "pax", "7z", "7za":
		dir := "."
		for i := range c.args {
			if v, ok := optionValue(c.args, i, "-d"); ok && !v.dynamic && c.name != "cpio" {
				dir = v.text
			}
		}
		a.unknownPath(dir, d)
	case "cp", "mv", "ln", "install", "rsync", "link":
		a.copies(c, args, d)
	}
}

// globs lists every word that the shell replaces by names of files, whatever
// the command makes of them, unless it is listed already. Of several names
// only the first is a pattern or the value of an option: the others are
// operands.
func (a *analyser) globs(c *call, d dirSet, listed []Path) {
	for _, w := range c.args {
		known := func(p Path) bool { return p.Pattern == w.pattern }
		if w.pattern != "" && (!slices.ContainsFunc(listed, known) || c.name == "git") {
			a.wordPath(w, d, false, true)
		}
	}
}

// unknownPath lists a directory in which files are written whose names are not
// known.
func (a *analyser) unknownPath(dir string, d dirSet) {
	for _, p := range d.in(dir) {
		a.path(Path{Text: p, Write: true, Certain: true, Reach: ReachNames, Unknown: true})
	}
}

// downloads lists where curl and wget write files whose names the address or
// the server gives.
func (a *analyser) downloads(c *call, d dirSet) {
	dir := "."
	for i := range c.args {
		for _, o := range []string{"-P", "--directory-prefix", "--output-dir"} {
			if v, ok := optionValue(c.args, i, o); ok && !v.dynamic {
				dir = v.text
			}
		}
	}
	switch {
	case c.name == "wget" && !hasCluster(c.args, 'O') && !hasPrefix(c.args, "--output-d"),
		c.name == "curl" && (hasCluster(c.args, 'O') || hasCluster(c.args, 'J') || hasPrefix(c.args, "--remote-")):
		a.unknownPath(dir, d)
	}
}

// copies lists sources with their targets. The meaning of one operand depends on
// the other.
func (a *analyser) copies(c *call, args []word, d dirSet) {
	to := word{dynamic: true}
	for i := range c.args {
		for _, o := range []string{"-t", "--target-directory"} {
			if v, ok := optionValue(c.args, i, o); ok && c.name != "rsync" {
				to = v
			}
		}
	}
	switch {
	case !to.dynamic:
	case len(args) > 1:
		to, args = args[len(args)-1], args[:len(args)-1]
	case c.name == "ln":
		to = word{text: "."}
	}
	if to.dynamic {
		return // not known, and so the command is not
	}
	targets := d.in(to.text)
	for _, w := range args {
		if w.dynamic || isAddress(w.text) || takesRemotePaths(c.name) && (isRemotePath(w.text) || isRemotePath(to.text)) {
			continue
		}
		sources := d.in(w.text)
		for i, target := range targets {
			from := Path{Text: sources[min(i, len(sources)-1)]}
			if w.pattern != "" {
				patterns := d.in(w.pattern)
				from.Pattern = patterns[min(i, len(patterns)-1)]
			}
			a.out.Copies = append(a.out.Copies, Copy{From: from, To: Path{Text: target}})
		}
	}
}

// operands lists the paths that options take and returns the words that are
// neither options nor their values.
func (a *analyser) operands(c *call, u usage, d dirSet) []word {
	var rest []word
	pattern := u.pattern && !givesPattern(u, c.args)
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		if !isOption(w) {
			if pattern {
				pattern = false
				a.shifted(c.args[:i+1], w, d)
				continue
			}
			rest = append(rest, w)
			continue
		}
		if w.text == "--" {
			tail := c.args[i+1:]
			if pattern && len(tail) > 0 {
				a.shifted(c.args[:i+2], tail[0], d)
				tail = tail[1:]
			}
			return append(rest, tail...)
		}
		name, value, glued := strings.Cut(w.text, "=")
		name = u.whole(name)
		if glued && strings.HasPrefix(name, "--") {
			a.optionPath(u, name, word{text: value}, d)
			continue
		}
		if has(u.stops, w.text) {
			return rest
		}
		option := u.whole(w.text)
		if last, sure := u.cluster(option); last != "" {
			if !sure && i+1 < len(c.args) && !known(usage{values: u.values}, last) {
				a.optionPath(u, last, c.args[i+1], d) // it may be the value, or an operand
				last = ""
			}
			if option = last; !sure {
				option = ""
			}
		}
		switch {
		case has(u.dirs, option) && (c.name != "git" || len(rest) == 0):
			i++ // relativeTo has listed it
		case c.name == "git" && option == "-m" && !takesMessage(rest):
		case c.name == "git" && option == "-c" && len(rest) == 0:
			i++
		case has(u.values, option):
			i++
		case has(u.outputs, option) || has(u.inputs, option):
			if i++; i < len(c.args) {
				a.optionPath(u, option, c.args[i], d)
			}
		case len(w.text) > 2 && w.text[1] != '-':
			a.gluedPath(u, w.text, d)
		}
	}
	return rest
}

// shifted lists a pattern as a path if it may be one: where the shell makes
// several words of one in front of it, the pattern is among those.
func (a *analyser) shifted(before []word, pattern word, d dirSet) {
	if slices.ContainsFunc(before, func(w word) bool { return w.pattern != "" }) {
		a.wordPath(pattern, d, false, false)
	}
}

func isOption(w word) bool { return !w.dynamic && len(w.text) > 1 && w.text[0] == '-' }

// whole is the long option that a shorter one stands for, if that takes a
// path: GNU programs take any beginning of a name.
func (u usage) whole(option string) string {
	if len(option) < 4 || !strings.HasPrefix(option, "--") || known(u, option) {
		return option
	}
	for _, list := range []string{u.outputs, u.inputs, u.dirs} {
		for o := range strings.FieldsSeq(list) {
			if strings.HasPrefix(o, option) {
				return o
			}
		}
	}
	return option
}

func known(u usage, option string) bool {
	return has(u.values, option) || has(u.outputs, option) || has(u.inputs, option) || has(u.dirs, option)
}

// takesMessage reports the subcommands of git whose -m is followed by a text.
func takesMessage(operands []word) bool {
	return len(operands) > 0 && has("commit tag merge stash notes", operands[0].text)
}

// cluster returns the last of several letters if that takes the next word as
// its value. A letter in front of it that takes a value itself ends the
// cluster. It is not sure of letters that the table does not have.
func (u usage) cluster(text string) (last string, sure bool) {
	if len(text) < 3 || text[1] == '-' || known(u, text) {
		return "", false
	}
	sure = true
	for i := 1; i < len(text)-1; i++ {
		if known(u, "-"+text[i:i+1]) {
			return "", false
		}
		sure = sure && strings.IndexByte(u.flags, text[i]) >= 0
	}
	if last = "-" + text[len(text)-1:]; !known(u, last) {
		return "", false
	}
	return last, sure
}

// givesPattern reports whether an option gives the pattern or the program, so
// that no operand does, not even one in front of it.
func givesPattern(u usage, args []word) bool {
	for _, w := range args {
		if w.text == "--" {
			break
		}
		if isOption(w) && isPattern(u, w.text) {
			return true
		}
	}
	return false
}

// isPattern reports an option for the pattern: alone, among other letters, or
// shortened.
func isPattern(u usage, option string) bool {
	option, _, _ = strings.Cut(option, "=")
	if !strings.HasPrefix(option, "--") {
		rest := strings.TrimLeft(option, u.flags+"-")
		if rest != "" && has(u.values, "-"+rest[:1]) && rest[0] != 'e' {
			return false // the rest is its value
		}
		return strings.ContainsAny(rest, "efE")
	}
	for _, o := range []string{"--regexp", "--file", "--expression", "--source", "--from-file", "--files"} {
		if strings.HasPrefix(o, option) {
			return true
		}
	}
	return false
}

// optionPath lists the value of an option if it is a path.
func (a *analyser) optionPath(u usage, name string, value word, d dirSet) {
	switch {
	case value.dynamic || has(u.values, name):
	case has(u.outputs, name):
		a.wordPath(value, d, true, true)
	case has(u.inputs, name):
		a.wordPath(value, d, false, true)
	case looksLikePath(value.text):
		write := strings.HasPrefix(name, "--out") || strings.HasPrefix(name, "--prefix") || strings.HasPrefix(name, "--dest")
		a.wordPath(value, d, write, true)
	}
}

// gluedPath takes a path behind a short option: -I/usr/include, -ofile.
func (a *analyser) gluedPath(u usage, text string, d dirSet) {
	value := word{text: strings.TrimPrefix(text[2:], "=")}
	switch {
	case known(usage{values: u.values, outputs: u.outputs, inputs: u.inputs}, text[:2]):
		a.optionPath(u, text[:2], value, d)
	case isRooted(value.text) || strings.HasPrefix(value.text, "./") || strings.HasPrefix(value.text, "../"):
		a.wordPath(value, d, false, true)
	}
}

// has looks for option in a list that is separated by spaces. An option with a
// space in it is in none.
func has(list, option string) bool {
	return !strings.Contains(option, " ") && option != "" && strings.Contains(" "+list+" ", " "+option+" ")
}

func hasOption(args []word, names ...string) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		name, _, _ := strings.Cut(w.text, "=")
		return slices.Contains(names, name)
	})
}

// editsInPlace knows the programs that change files only when asked to.
func editsInPlace(c *call) bool {
	switch c.name {
	case "sed", "gsed", "perl", "ruby":
		return hasCluster(c.args, 'i') || hasOption(c.args, "--in-place")
	case "gofmt", "goimports", "shfmt":
		return hasCluster(c.args, 'w')
	case "prettier":
		return hasOption(c.args, "--write", "-w")
	case "eslint":
		return hasOption(c.args, "--fix")
	case "yq":
		return hasOption(c.args, "-i", "--inplace")
	}
	return false
}

// wordPath lists a word as a path, once for each directory it may be meant in.
func (a *analyser) wordPath(w word, d dirSet, write, certain bool) {
	if w.dynamic || w.text == "" || isHarmlessDevice(w.text) {
		return
	}
	if name, ok := strings.CutPrefix(w.text, "@"); ok && name != "" { // curl and compilers: read it from this file
		a.wordPath(word{text: name, pattern: strings.TrimPrefix(w.pattern, "@")}, d, write, certain)
	}
	if isFile := isRooted(w.text); strings.Contains(w.text, "://") && !strings.HasPrefix(w.text, "./") || isFile && w.text[0]|0x20 == 'f' {
		// To a program that opens files this is one, below a directory "http:".
		named := word{text: "./" + w.text}
		if w.pattern != "" {
			named.pattern = "./" + w.pattern
		}
		a.wordPath(named, d, write, false)
		if !isFile {
			return
		}
	}
	text := w.text
	if d.lost && !isRooted(text) {
		a.opaque("the script may be in so many directories that what its paths mean is not known")
	}
	texts := d.in(text)
	patterns := make([]string, len(texts))
	if w.pattern != "" {
		copy(patterns, d.in(w.pattern))
	}
	for i, t := range texts {
		a.path(Path{Text: t, Pattern: patterns[i], Write: write, Certain: certain, Reach: a.manner.reach, Moves: write && a.manner.moves, Runs: w.runs})
	}
}

func (a *analyser) path(p Path) { a.out.Paths = appendNew(a.out.Paths, p) }

// appendNew adds v unless it was added lately.
func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list[max(0, len(list)-64):], v) {
		return list
	}
	return append(list, v)
}

// looksLikePath goes by how a word is written.
func looksLikePath(s string) bool {
	return s != "" && !isAddress(s) && (strings.Contains(s, "/") || s[0] == '.' || s[0] == '~' || strings.HasPrefix(s, "@/"))
}

// relativeTo applies git -C and its like.
func (a *analyser) relativeTo(c *call, u usage, d dirSet) dirSet {
	if u.dirs == "" {
		return d
	}
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		if c.name == "git" && (w.dynamic || !strings.HasPrefix(w.text, "-")) {
			if i == 0 || c.args[i-1].text != "-c" {
				return d // -C behind the subcommand is something else
			}
			continue
		}
		if !has(u.dirs, w.text) || i+1 == len(c.args) {
			continue
		}
		if i++; c.args[i].dynamic {
			continue
		}
		a.wordPath(c.args[i], d, false, true)
		d = dirSet{at: d.in(c.args[i].text), lost: d.lost}
	}
	return d
}

// findPaths tells find's starting points from its expression.
func (a *analyser) findPaths(c *call, u usage, d dirSet) {
	deletes := hasOption(c.args, "-delete")
	start, named := true, false
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		switch text := w.text; {
		case start && (text == "-L" || text == "-H" || text == "-P" || strings.HasPrefix(text, "-O") || text == "-D"):
		case start && text == "--":
		case strings.HasPrefix(text, "-exec") || strings.HasPrefix(text, "-ok"):
			start = false
			for i++; i < len(c.args) && c.args[i].text != ";" && c.args[i].text != "+"; i++ {
			}
		case strings.HasPrefix(text, "-") || text == "(" || text == "!":
			start = false
			if isNewer := strings.HasPrefix(text, "-newer") && !strings.HasSuffix(text, "t"); has(u.outputs, text) || has(u.inputs, text) || isNewer {
				if isNewer {
					text = "-newer"
				}
				if i++; i < len(c.args) {
					a.optionPath(u, text, c.args[i], d)
				}
			}
		case start:
			named = true
			a.wordPath(w, d, deletes, true)
		}
	}
	if !named && a.manner.reach != ReachNames {
		a.wordPath(word{text: "."}, d, deletes, true)
	}
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
