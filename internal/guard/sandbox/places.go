package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// access is what programs may do with a place; the lowest counts where a path
// has several.
type access int

const (
	hide access = iota
	read
	write
)

// place is a path and what holds from there on downwards.
type place struct {
	path string
	may  access
}

var (
	// system are the parts of every machine that programs need. They are
	// read-only inside.
	system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/snap",
		"/System", "/Library", "/private/etc", "/Applications"} // those of macOS
	devices = []string{"/dev", "/proc"}
	private = []string{"/tmp", "/var/tmp"} // each sandbox has its own on Linux
)

// sorted are the places of a confinement, each once, what holds others first.
// Those that change nothing are left out: every place costs time.
func sorted(conf bridge.Confinement) []place {
	all := map[string]access{}
	for may, paths := range [][]string{hide: conf.Hide, read: conf.Read, write: conf.Write} {
		for _, path := range paths {
			if _, known := all[path]; !known {
				all[path] = access(may)
			}
		}
	}
	var out []place
	for path, may := range all {
		out = append(out, place{path, may})
	}
	slices.SortStableFunc(out, func(a, b place) int {
		return cmp.Or(cmp.Compare(depth(a.path), depth(b.path)), cmp.Compare(a.path, b.path))
	})
	var kept []place
	for _, p := range out {
		above, found := around(kept, p.path)
		// A place to write inside another one becomes a mount point, which cannot
		// be renamed.
		if p.may != write && found && above == p.may || p.may == hide && !found {
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

func depth(path string) int {
	if path == "/" {
		return 0
	}
	return strings.Count(path, "/")
}

// around is what holds for a path by the places around it.
func around(places []place, path string) (may access, found bool) {
	for _, p := range slices.Backward(places) {
		if Within(path, p.path) {
			return p.may, true
		}
	}
	return read, slices.ContainsFunc(system, func(dir string) bool { return Within(path, dir) })
}

// shown says whether a path can be seen inside.
func shown(places []place, path string) bool {
	may, found := around(places, path)
	return found && may != hide
}

// Allows says whether programs inside may read a path, or write it.
func Allows(conf bridge.Confinement, path string, toWrite bool) bool {
	may, found := around(sorted(conf), path)
	if holds := func(dir string) bool { return Within(path, dir) }; !found {
		switch {
		case runtime.GOOS == "linux" && slices.ContainsFunc(private, holds):
			may, found = write, true
		case slices.ContainsFunc(devices, holds):
			may, found = read, true
		}
	}
	return found && (may == write || may == read && !toWrite)
}

// Within says whether a path is dir or lies below it.
func Within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// bwrapArgs are the arguments of bwrap, up to the program.
func bwrapArgs(network bool, places []place, home, dir string) []string {
	args := []string{"--unshare-all"}
	if network {
		args = append(args, "--share-net")
	}
	args = append(args, "--die-with-parent", "--cap-drop", "ALL")
	for _, path := range system {
		if to, err := os.Readlink(path); err == nil { // /bin is one to usr/bin nowadays
			args = append(args, "--symlink", to, path)
		} else if _, err := os.Lstat(path); err == nil {
			args = append(args, "--ro-bind", path, path)
		}
	}
	// The settings of the kernel are for all of the machine, and root could
	// write them without any capability: one names a program that is run outside.
	args = append(args, "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--tmpfs", "/tmp", "--dir", "/var/tmp", "--dir", "/run")
	if to, err := filepath.EvalSymlinks("/etc/resolv.conf"); network && err == nil && !Within(to, "/etc") {
		args = append(args, "--ro-bind", to, to)
	}
	if filepath.IsAbs(home) {
		args = append(args, "--dir", filepath.Clean(home))
	}
	var closed []string
	for _, p := range places {
		info, err := os.Lstat(p.path)
		if err != nil || info.Mode()&os.ModeSymlink != 0 {
			continue // gone, or no longer what was meant
		}
		switch {
		case p.may == write:
			args = append(args, "--bind", p.path, p.path)
		case p.may == read:
			args = append(args, "--ro-bind", p.path, p.path)
		case info.IsDir():
			args = append(args, "--tmpfs", p.path)
			closed = append(closed, "--remount-ro", p.path) // once all that lies below is there
		default:
			args = append(args, "--ro-bind", "/dev/null", p.path)
		}
	}
	return slices.Concat(args, closed, []string{"--chdir", dir, "--"})
}
