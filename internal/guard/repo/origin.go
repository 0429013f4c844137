package repo

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Origin is what people call the repository that a directory is in, such as
// octo/widgets, and its branch. It is for display: what cannot be read is empty,
// and nothing is checked.
func Origin(dir string) (name, branch string) {
	store := storeAbove(dir)
	if store == "" {
		return "", ""
	}
	if head, err := read(filepath.Join(store, "HEAD"), 8<<10); err == nil {
		if ref, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/"); ok {
			branch = ref
		}
	}
	if common, there, err := pointer(store, "commondir"); err == nil && there {
		store = common
	}
	c, err := readSettings(filepath.Join(store, "config"))
	if err != nil {
		return "", branch
	}
	remote, _ := c.last("remote.origin.url")
	return remoteName(remote), branch
}

// storeAbove is the .git directory of the work tree that dir is in.
func storeAbove(dir string) string {
	for range maxUp {
		link := filepath.Join(dir, ".git")
		if info, err := os.Stat(link); err == nil {
			if info.IsDir() {
				return link
			}
			to, err := redirection(link)
			if err != nil {
				return ""
			}
			return to
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
	return ""
}

// remoteName is the path of a remote's address, without what may be secret in it.
func remoteName(remote string) string {
	path := ""
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		path = u.Path
	} else if _, after, ok := strings.Cut(remote, ":"); ok && strings.Contains(remote, "@") {
		path = after // user@host:path
	}
	return strings.TrimSuffix(strings.Trim(path, "/"), ".git")
}
