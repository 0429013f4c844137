package guard

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/shell"
)

// addCommand takes a command line apart and adds what it would do: every
// simple command in it, every file that it names or redirects to, and every
// host.
func (g *Guard) addCommand(a *policy.Action, text string) {
	an, err := g.analysed(text)
	if err != nil {
		a.Unparsable = err.Error()
		return
	}
	if len(an.Problems) > 0 {
		a.Unparsable = strings.Join(an.Problems, "; ")
		return
	}
	for i := range an.Commands {
		given := &an.Commands[i]
		if transparent(given, len(an.Commands)) {
			continue
		}
		c := command(given)
		// What changes the meaning of other commands makes all of them unknown.
		c.Opaque = c.Opaque || len(an.Dangerous) > 0
		if given.Altered {
			c.Unsafe = "it runs in another environment than the session's"
		}
		if isGit(given.Words[0]) {
			g.addGit(a, given, &c)
		}
		c.Network = given.Network
		if a.Wall == policy.WholeWall {
			c.Destroys = g.destroys(given)
		}
		a.Commands = append(a.Commands, c)
	}
	for _, why := range an.Opaque {
		a.Commands = append(a.Commands, policy.Command{Text: why, Opaque: true})
	}
	for _, p := range an.Paths {
		into := slices.ContainsFunc(an.Copies, func(c shell.Copy) bool { return c.To.Text == p.Text })
		g.addFile(a, p, into)
	}
	for _, c := range an.Copies {
		g.addCopy(a, c)
	}
	for _, r := range an.Redirects {
		if a.Wall != policy.WholeWall {
			a.Paths = append(a.Paths, policy.Path{Name: r.Path, Write: r.Write, Problem: "it is only known when the command runs"})
		}
	}
	addHosts(a, an.URLs)
}

// maxParsed bounds the scripts whose analysis is kept.
const maxParsed = 16

// analysed is the analysis of a script. It is kept, since a call is looked at
// when it is judged, while it runs and when it has ended; the files that it
// names are resolved anew each time.
func (g *Guard) analysed(script string) (shell.Analysis, error) {
	g.mu.Lock()
	an, known := g.parsed[script]
	g.mu.Unlock()
	if known {
		return an, nil
	}
	an, err := g.analyse(script)
	if err != nil {
		return an, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.parsed) >= maxParsed {
		clear(g.parsed)
	}
	g.parsed[script] = an
	return an, nil
}

// transparent commands do nothing by themselves: cd, whose directory is judged
// as a path, and wrappers whose inner command is judged instead.
func transparent(c *shell.Command, commands int) bool {
	if c.Dynamic || len(c.Assignments) > 0 {
		return false
	}
	if c.Words[0] == "cd" {
		return commands > 1
	}
	return c.Wrapper && slices.Contains([]string{"env", "timeout", "nice", "ionice", "nohup", "time", "stdbuf", "command"}, c.Words[0])
}

func command(c *shell.Command) policy.Command {
	out := policy.Command{Words: c.Words, Globs: c.Globs, Text: c.Raw, Opaque: c.Dynamic || c.DynamicName}
	if len(c.DynamicWords) > 0 {
		out.Words = c.Words[:slices.Min(c.DynamicWords)]
	}
	for _, as := range c.Assignments {
		out.Env = append(out.Env, as.Name+"="+as.Value)
		out.Opaque = out.Opaque || as.Dangerous || as.Dynamic
	}
	return out
}

// addFile adds a path of a command. If it is where something is copied to,
// into is set: a directory then stays what it is.
func (g *Guard) addFile(a *policy.Action, p shell.Path, into bool) {
	if p.Pattern == "" {
		res, err := g.here.Resolve(p.Text)
		g.addResolved(a, p, res, err, into)
		return
	}
	res, matches, err := g.here.Expand(p.Pattern, p.Reach == shell.ReachWords)
	if err != nil || !res.Inside {
		a.Paths = append(a.Paths, pathOf(res, err, p.Text, p.Write))
		return
	}
	// Where nothing matches, the word stands for itself, and a file may be
	// called [x].
	if literal, err := g.here.Resolve(p.Text); p.Reach != shell.ReachWords && err == nil && (literal.Exists || !literal.Inside) {
		g.addResolved(a, p, literal, nil, into)
	}
	if len(matches) == 0 || (p.Reach == shell.ReachNames || p.Reach == shell.ReachWords) && !p.Write {
		// A pattern that matches nothing is a name, and names may be shown.
		a.Paths = append(a.Paths, pathOf(res, nil, p.Text, p.Write))
		return
	}
	for i, m := range matches {
		// Of many files only those are added that a rule speaks about.
		if i < maxNamed || m.IsDir || p.Write && !g.policy().MayWrite(m.Rel) || !p.Write && g.denied(m.Rel) {
			g.addResolved(a, p, m, nil, into)
		}
	}
}

// maxNamed is how many matches of a pattern are added as they are.
const maxNamed = 200

func (g *Guard) denied(rel string) bool {
	_, denied := g.policy().ReadDenied(rel)
	return denied
}

func (g *Guard) addResolved(a *policy.Action, p shell.Path, res paths.Resolved, err error, into bool) {
	if err == nil && (harmless[res.Abs] || !p.Certain && !res.Exists && res.Inside) {
		return // a word that is no file
	}
	if err == nil && !res.Inside && p.Runs && a.Tool == ToolServerStart {
		return // servers lie where they are installed; their command is judged
	}
	out := pathOf(res, err, p.Text, p.Write)
	if err != nil || !res.Inside {
		a.Paths = append(a.Paths, out)
		return
	}
	if p.Reach == shell.ReachRules {
		g.addRules(a, res)
	}
	whole := p.Write && p.Moves && (!into || !res.IsDir)
	switch {
	case p.Write && p.Unknown:
		out.Doubt = "the names of the files that are written there are not known"
	case whole && (g.policy().HoldsConfiguration(res.Rel) || res.Named != "" && g.policy().HoldsConfiguration(res.Named)):
		out.Doubt = "files that configure programs or agents may be in it"
	case whole && res.IsDir:
		out.Tree = true
		g.addBelow(a, res, below{write: true})
	case res.IsDir && p.Reach == shell.ReachLinks:
		g.addBelow(a, res, below{links: true})
	case res.IsDir && (p.Reach == shell.ReachTree || p.Reach == shell.ReachRules) && !into && g.deniedBelow(res):
		read := out
		read.Write, read.Tree = false, true
		a.Paths = append(a.Paths, read)
	}
	a.Paths = append(a.Paths, out)
}

// addCopy adds the files that a copy, a move or a link writes: the target, the
// file of that name in a target directory, and all files of a copied directory.
func (g *Guard) addCopy(a *policy.Action, c shell.Copy) {
	to, err := g.here.Resolve(c.To.Text)
	if err != nil || !to.Inside {
		return // judged as a path
	}
	var from []paths.Resolved
	if c.From.Pattern != "" {
		_, from, err = g.here.Expand(c.From.Pattern, false)
	} else {
		var one paths.Resolved
		one, err = g.here.Resolve(c.From.Text)
		from = []paths.Resolved{one}
	}
	if err != nil {
		return // judged as a path
	}
	for _, f := range from {
		name := path.Base(cmp.Or(f.Named, f.Rel))
		if c.From.Pattern == "" {
			name = path.Base(c.From.Text)
		}
		if to.IsDir {
			res, err := g.opts.Workspace.Resolve(filepath.Join(to.Abs, name))
			a.Paths = append(a.Paths, pathOf(res, err, path.Join(c.To.Text, name), true))
		}
		if f.IsDir && f.Inside {
			g.addBelow(a, f, below{write: true, at: []string{to.Rel, path.Join(to.Rel, name)}})
		}
	}
}

func addHosts(a *policy.Action, urls []string) {
	for _, raw := range urls {
		h, err := shell.ParseHost(raw)
		if err != nil {
			a.Hosts = append(a.Hosts, policy.Host{Name: raw, Problem: err.Error()})
			continue
		}
		a.Hosts = append(a.Hosts, policy.Host{Name: h.Name, Port: h.Port})
	}
}
