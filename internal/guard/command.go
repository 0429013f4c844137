package guard

import (
	"io/fs"
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
	an, err := shell.Analyse(text, shell.Bash)
	if err != nil {
		a.Unparsable = err.Error()
		return
	}
	if len(an.Problems) > 0 {
		a.Unparsable = strings.Join(an.Problems, "; ")
		return
	}
	names := false // only names are shown of what lies below a directory
	moved := slices.ContainsFunc(an.Commands, func(c shell.Command) bool { return c.Words[0] == "cd" })
	for i := range an.Commands {
		if transparent(&an.Commands[i], len(an.Commands)) {
			continue
		}
		c := command(&an.Commands[i])
		if moved {
			c.Dir = "elsewhere" // which commands come after the cd is not worked out
		}
		// What changes the meaning of other commands makes all of them unknown.
		c.Opaque = c.Opaque || len(an.Dangerous) > 0
		a.Commands = append(a.Commands, c)
		names = names || len(c.Words) > 0 && slices.Contains(namesOnly, c.Words[0])
	}
	for _, why := range an.Opaque {
		a.Commands = append(a.Commands, policy.Command{Text: why, Opaque: true})
	}
	for _, p := range an.Paths {
		g.addFile(a, p, names && len(an.Commands) == 1)
	}
	for _, r := range an.Redirects {
		if r.Dynamic {
			a.Paths = append(a.Paths, policy.Path{Name: r.Path, Write: r.Write, Problem: "it is only known when the command runs"})
		}
	}
	for _, u := range an.URLs {
		a.Hosts = append(a.Hosts, host(u))
	}
}

// namesOnly show the names below a directory, not what is in the files.
var namesOnly = []string{"ls", "find", "du", "stat", "test", "[", "cd", "mkdir", "touch", "tree", "git", "go", "gofmt", "make", "npm"}

// transparent commands do nothing by themselves: cd, whose directory is judged
// as a path, and wrappers whose inner command is judged instead.
func transparent(c *shell.Command, commands int) bool {
	if c.Dynamic || len(c.Assignments) > 0 {
		return false
	}
	if c.Words[0] == "cd" {
		return commands > 1
	}
	return c.Has(shell.FlagWrapper) && slices.Contains([]string{"env", "timeout", "nice", "ionice", "nohup", "time", "stdbuf", "command"}, c.Words[0])
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

func (g *Guard) addFile(a *policy.Action, p shell.Path, names bool) {
	var res paths.Resolved
	var err error
	if p.Pattern != "" {
		res, err = g.opts.Workspace.ResolveGlob(p.Pattern)
	} else {
		res, err = g.opts.Workspace.Resolve(p.Text)
	}
	if err == nil && (harmless[res.Abs] || !p.Certain && !res.Exists && res.Inside) {
		return // a word that is no file
	}
	out := path(res, err, p.Text, p.Write)
	out.Tree = err == nil && res.IsDir && !names && g.deniedBelow(res)
	a.Paths = append(a.Paths, out)
}

func host(raw string) policy.Host {
	h, err := shell.ParseHost(raw)
	if err != nil {
		return policy.Host{Name: raw, Problem: err.Error()}
	}
	return policy.Host{Name: h.Name, Port: h.Port}
}

// maxListed bounds how many files are looked at to learn whether a denied one
// is among them; beyond it there may be one.
const maxListed = 5_000

// deniedBelow says whether a file that may not be read lies below a directory.
func (g *Guard) deniedBelow(dir paths.Resolved) bool {
	seen, found := 0, false
	err := fs.WalkDir(g.opts.Workspace.FS().FS(), dir.Rel, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > maxListed {
			found = true
			return fs.SkipAll
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		if _, found = g.opts.Policy.ReadDenied(p); found {
			return fs.SkipAll
		}
		return nil
	})
	return found || err != nil
}
