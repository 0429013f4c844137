package search

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
		// The npm package has the program in prebuilds/<platform>/ and ripgrep
		// in ripgrep/bin/<platform>/, of the one platform that it is for.
		inPackage := "ripgrep/bin/*/" + name
		for _, at := range [][2]string{{filepath.Join(runtimeDir, "..", ".."), inPackage}, {runtimeDir, inPackage},
			{runtimeDir, "node_modules/@github/copilot-sdk-*/" + inPackage}} {
			found, err := fs.Glob(os.DirFS(at[0]), at[1])
			if err != nil {
				continue
			}
			for _, f := range found {
				if path, err := filepath.Abs(filepath.Join(at[0], filepath.FromSlash(f))); err == nil && executable(path) {
					return path
				}
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

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}
