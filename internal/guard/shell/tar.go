package shell

import "strings"

// tar reads its options with and without a dash.
func (a *analyser) tar(c *call, d dirSet) {
	mode, file, dir := "", "", ""
	rest := []word{}
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		text := w.text
		next := func() string {
			if i++; i < len(c.args) && !c.args[i].dynamic {
				return c.args[i].text
			}
			return ""
		}
		switch {
		case w.dynamic:
		case text == "-C" || text == "--directory":
			dir = next()
		case strings.HasPrefix(text, "--directory="):
			dir = text[len("--directory="):]
		case strings.HasPrefix(text, "--file="):
			file = text[len("--file="):]
		case text == "--file":
			file = next()
		case text == "--extract", text == "--get":
			mode += "x"
		case text == "--create", text == "--append", text == "--update":
			mode += "c"
		case strings.HasPrefix(text, "--"):
			a.optionPath(usage{}, "--", word{text: text[strings.IndexByte(text+"=", '=')+min(1, strings.Count(text, "=")):]}, d)
		case i == 0 && text != "" || strings.HasPrefix(text, "-"):
			cluster := strings.TrimPrefix(text, "-")
			mode += cluster
			if at := strings.IndexByte(cluster, 'f'); at >= 0 {
				if file = cluster[at+1:]; file == "" || i == 0 && text[0] != '-' {
					file = next()
				}
			}
		default:
			rest = append(rest, w)
		}
	}
	writing := strings.ContainsAny(mode, "cruA")
	if file != "" && file != "-" && !isAddress(file) {
		a.wordPath(word{text: file}, d, writing, true)
	}
	switch extracts := strings.Contains(mode, "x"); {
	case extracts:
		if dir == "" {
			dir = "."
		}
		a.unknownPath(dir, d)
	case dir != "":
		a.wordPath(word{text: dir}, d, false, true)
	}
	if dir != "" {
		d = dirSet{at: d.in(dir), lost: d.lost}
	}
	for _, w := range rest {
		if !strings.Contains(mode, "x") || looksLikePath(w.text) {
			a.wordPath(w, d, false, true)
		}
	}
}
