package search

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// FindRipgrep returns the path of the ripgrep to use, or "" if there is none:
// the one that comes with the Copilot runtime, else the one that lookPath,
// such as exec.LookPath, finds. runtimeDir is the directory of the runtime's
// program or that of its install, or "" if there is no runtime. Nothing is
// started.
func FindRipgrep(runtimeDir string, lookPath func(string) (string, error)) string {
	name := "rg"
	if runtime.GOOS == "windows" {
		name = "rg.exe"
	}
	if runtimeDir != "" {
		// The npm package has the program in prebuilds/<platform>/ and
		// ripgrep in ripgrep/bin/<platform>/.
		candidates := []string{filepath.Join(runtimeDir, "..", ".."), runtimeDir}
		scope := filepath.Join(runtimeDir, "node_modules", "@github")
		for _, entry := range names(scope) {
			if strings.HasPrefix(entry, "copilot-sdk-") {
				candidates = append(candidates, filepath.Join(scope, entry))
			}
		}
		for _, base := range candidates {
			if path := packaged(base, name); path != "" {
				return path
			}
		}
	}
	if lookPath != nil {
		if path, err := lookPath(name); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				return path
			}
		}
	}
	return ""
}

// packaged finds ripgrep below a package's directory. A package holds the
// programs of one platform, so whichever is there is the right one.
func packaged(base, name string) string {
	bin := filepath.Join(base, "ripgrep", "bin")
	for _, platform := range names(bin) {
		path, err := filepath.Abs(filepath.Join(bin, platform, name))
		if err != nil {
			continue
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return path
		}
	}
	return ""
}

// names are what is in a directory; nothing if there is no such directory.
func names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name()
	}
	return list
}
