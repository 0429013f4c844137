package shell

import "strings"

// find runs commands for the files it meets.
func (a *analyser) find(c *call, d dirSet) {
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		if w.dynamic {
			continue
		}
		switch w.text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(c.args) && c.args[end].text != ";" && (c.args[end].text != "+" || c.args[end-1].text != "{}") {
				end++
			}
			at := d
			if strings.HasSuffix(w.text, "dir") {
				at.lost = true // it runs beside each file that is found
			}
			a.runFor(c, c.args[i+1:end], at)
			i = end
		case "-files0-from":
			a.opaque("find reads its starting points from a file")
		}
	}
}

// runFor lists a command that is run once per file. The files are those below
// the paths that c names, so {} as an argument tells nothing new; as a program
// or inside a script it does.
func (a *analyser) runFor(c *call, words []word, d dirSet) {
	if len(words) == 0 {
		return
	}
	list := make([]word, len(words))
	for i, w := range words {
		if i == 0 && strings.Contains(w.text, "{}") || w.text != "{}" && strings.Contains(w.text, "{}") {
			w.dynamic = true
		}
		w.found = w.text == "{}"
		list[i] = w
	}
	a.flag(c, FlagWrapper)
	in := c.inner(list)
	in.stdin, in.piped = nil, false
	a.run(in, d)
}

// fd takes the command behind -x to the end.
func (a *analyser) fd(c *call, d dirSet) {
	for i, w := range c.args {
		switch w.text {
		case "-x", "--exec", "-X", "--exec-batch":
			words := c.args[i+1:]
			for j, v := range words {
				if v.text == ";" {
					words = words[:j]
					break
				}
			}
			a.runFor(c, words, d)
			return
		}
		if strings.HasPrefix(w.text, "--exec=") || strings.HasPrefix(w.text, "--exec-batch=") || len(w.text) > 2 && w.text[1] != '-' && strings.HasPrefix(w.text, "-") && strings.ContainsAny(w.text, "xX") {
			a.opaque("what " + c.name + " runs cannot be seen")
		}
	}
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
