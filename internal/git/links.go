package git

import (
	"path/filepath"
	"strings"
)

// Reserved says whether a path decides about agents or belongs to git. It
// also knows the short names of Windows.
func Reserved(path string) bool {
	for name := range strings.SplitSeq(strings.ToLower(path), "/") {
		switch name = strings.TrimRight(name, ". "); {
		case name == ".git", name == ".agent-policy.yaml", name == ".agent-policy.yml", strings.HasPrefix(name, "git~"), strings.HasPrefix(name, "agent-~"):
			return true
		}
	}
	return false
}

// LeadsOut judges a link by its text: up and then down is fine as long as it
// stays inside. Up again after down may cross another link, so it is refused.
func LeadsOut(path, target string) bool {
	target = filepath.ToSlash(target)
	if filepath.IsAbs(target) || strings.HasPrefix(target, "/") || filepath.VolumeName(target) != "" {
		return true
	}
	depth, down := strings.Count(path, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; down || depth < 0 {
				return true
			}
		default:
			down = true
		}
	}
	return Reserved(target)
}
