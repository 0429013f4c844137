package git

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// WriteTree brings an index up to date with a working tree and writes it as a
// tree. Ignored files are left out, and those untracked ones that keep, if
// there is one, does not want; it gets their names relative to the working
// tree. It is `git add --all` without a look into submodules: that would run
// git there, under a configuration of their own.
func (r *Repository) WriteTree(ctx context.Context, tree, index string, keep func(name string) bool) (string, error) {
	ask := func(args ...string) ([]string, error) {
		out, _, err := r.Run(ctx, Call{Tree: tree, Index: index, Args: args})
		if out = strings.TrimSuffix(out, "\x00"); err != nil || out == "" {
			return nil, err
		}
		return strings.Split(out, "\x00"), nil
	}
	changed, err := ask("diff-files", "-z", "--name-status", "--no-renames", "--ignore-submodules=dirty")
	if err != nil {
		return "", err
	}
	present, err := ask("ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	if r.confine != nil {
		// Inside the sandbox git does not see a repository whose data lie
		// elsewhere, and takes its files for ours.
		top := tree
		if top == "" {
			top = r.Top
		}
		present = slices.DeleteFunc(present, inRepository(top))
	}
	if keep != nil {
		present = slices.DeleteFunc(present, func(name string) bool { return !keep(name) })
	}
	var gone []string
	for i := 0; i+1 < len(changed); i += 2 {
		if status, name := changed[i], changed[i+1]; status == "D" {
			gone = append(gone, name)
		} else {
			present = append(present, name)
		}
	}
	// A repository in the tree is listed with a slash.
	var nested []string
	present = slices.DeleteFunc(present, func(name string) bool {
		name, repository := strings.CutSuffix(name, "/")
		if repository {
			nested = append(nested, name)
		}
		return repository
	})
	update := func(names []string, args ...string) error {
		if len(names) == 0 {
			return nil
		}
		_, _, err := r.Run(ctx, Call{Tree: tree, Index: index, Args: append(append([]string{"update-index"}, args...), "-z", "--stdin"), Input: strings.Join(names, "\x00") + "\x00"})
		return err
	}
	// Deletions first: a file may have taken the place of a directory.
	if err := update(gone, "--force-remove"); err != nil {
		return "", err
	}
	// Another program may remove a file while git reads it. The next time git
	// sees that it is gone.
	for try := 1; ; try++ {
		err := update(present, "--add", "--remove", "--replace")
		if err == nil {
			break
		}
		if try == maxTries || !strings.Contains(err.Error(), "No such file or directory") {
			return "", err
		}
	}
	for _, name := range nested {
		// One without a commit cannot be recorded, and is left out.
		if _, _, err := r.Run(ctx, Call{Tree: tree, Index: index, Args: []string{"update-index", "--add", "--replace", "--", name}, OK: []int{1, 128}}); err != nil {
			return "", err
		}
	}
	return r.Line(ctx, Call{Tree: tree, Index: index, Args: []string{"write-tree"}})
}

// maxTries bounds how often files are read that others remove meanwhile.
const maxTries = 10

// inRepository tells whether a path below top lies in another repository.
func inRepository(top string) func(name string) bool {
	known := map[string]bool{".": false}
	var look func(string) bool
	look = func(dir string) bool {
		in, found := known[dir]
		if !found {
			_, err := os.Lstat(filepath.Join(top, dir, ".git"))
			in = err == nil || look(path.Dir(dir))
			known[dir] = in
		}
		return in
	}
	return func(name string) bool { return look(path.Dir(strings.TrimSuffix(name, "/"))) }
}
