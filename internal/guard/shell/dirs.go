package shell

import (
	"slices"
	"strings"
)

// dirSet is where the shell may be at some point of the script. Without any
// directory the point is never reached; lost means that it may be anywhere.
type dirSet struct {
	at   []string
	lost bool
}

const (
	maxDirs = 16
	maxDir  = 1 << 10 // bytes of one; a longer one counts as unknown
)

func (d dirSet) or(e dirSet) dirSet {
	if len(e.at) == 0 && !e.lost {
		return d
	}
	u := dirSet{at: slices.Clone(d.at), lost: d.lost || e.lost}
	for _, dir := range e.at {
		if !slices.Contains(u.at, dir) {
			u.at = append(u.at, dir)
		}
	}
	if len(u.at) > maxDirs {
		u.at, u.lost = u.at[:maxDirs], true
	}
	return u
}

func (d dirSet) same(e dirSet) bool {
	return d.lost == e.lost && len(d.at) == len(e.at) && !slices.ContainsFunc(d.at, func(s string) bool { return !slices.Contains(e.at, s) })
}

// in returns path as seen from the start of the script, once for every
// directory that the shell may be in.
func (d dirSet) in(path string) []string {
	if len(d.at) == 0 || isRooted(path) {
		return []string{path}
	}
	if len(d.at) == 1 && d.at[0] == "" {
		return []string{path}
	}
	all := make([]string, 0, len(d.at))
	for _, dir := range d.at {
		switch dir {
		case "":
			all = append(all, path)
		case "/":
			all = append(all, "/"+path)
		default:
			all = append(all, dir+"/"+path)
		}
	}
	return all
}

func isRooted(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, "~") || len(path) > 5 && strings.EqualFold(path[:5], "file:")
}

// changeDir follows cd and pushd.
func (a *analyser) changeDir(c call, d dirSet) (ok, fail dirSet) {
	target, found := word{text: "~"}, false
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		if !w.dynamic && !found && len(w.text) > 1 && w.text[0] == '-' && strings.Trim(w.text[1:], "LPe@n") == "" {
			continue
		}
		if !w.dynamic && w.text == "--" && !found {
			continue
		}
		if found { // newer versions of bash take one alone, older ones the first
			a.opaque("where " + c.name + " goes is not known, so neither is what paths after it mean")
			return dirSet{at: d.at, lost: true}, d
		}
		target, found = w, true
	}
	back := found && !target.dynamic && target.text == "-" || c.name == "popd" ||
		c.name == "pushd" && (!found || strings.HasPrefix(target.text, "+") || strings.HasPrefix(target.text, "-"))
	switch {
	case back || target.dynamic || target.pattern != "":
		a.opaque("where " + c.name + " goes is not known, so neither is what paths after it mean")
		ok = dirSet{at: d.at, lost: true}
	case target.text == "" || target.text == ".":
		return d, d
	default:
		for _, p := range d.in(target.text) {
			a.path(Path{Text: p, Certain: true, Reach: ReachNames})
		}
		ok = dirSet{at: d.in(target.text), lost: d.lost && !isRooted(target.text)}
		if slices.ContainsFunc(ok.at, func(dir string) bool { return len(dir) > maxDir }) {
			ok = dirSet{at: d.at, lost: true}
		}
	}
	return ok, d
}
