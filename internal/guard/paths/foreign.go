package paths

import (
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// foreign says what makes a path mean something else, or something dangerous,
// on another operating system. Models write Windows paths on Unix and the
// other way round, and a workspace is often shared between both; so a name
// that Windows reserves is refused everywhere, and a form that only Windows
// understands is refused where it would be taken for a strange file name. The
// rules for names on Windows have not been tried on Windows itself.
func foreign(path string, windows bool) string {
	const native = runtime.GOOS == "windows"
	rest := path
	switch {
	case path == "":
		return ""
	case len(path) > 1 && isSlash(path[0]) && isSlash(path[1]) && (windows || path[0] == '\\'):
		return "is a network or device path"
	case !native && strings.Contains(path, `\`):
		return "has backslashes, which other systems take for separators"
	case isDrive(path):
		if !native {
			return "begins with a drive letter"
		}
		if rest = path[2:]; rest == "" || !os.IsPathSeparator(rest[0]) {
			return "depends on the current directory of a drive"
		}
	case native && isSlash(path[0]):
		return "depends on the current drive"
	}
	for len(rest) > 0 {
		end := strings.IndexAny(rest, `/\`)
		if end < 0 {
			end = len(rest)
		}
		name := rest[:end]
		rest = rest[min(end+1, len(rest)):]
		if isDevice(name) {
			return "contains " + text.Quote(name, maxQuoted) + ", which is a device on Windows"
		}
		if !windows {
			continue
		}
		if why := badOnWindows(name); why != "" {
			return why
		}
	}
	return ""
}

func badOnWindows(name string) string {
	switch {
	case name == "" || name == "." || name == "..":
		return ""
	case strings.Contains(name, ":"):
		return "names an alternate data stream"
	case strings.ContainsAny(name, `<>"|?*`):
		return "has characters that Windows does not allow in names"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return "has a name that ends in a dot or a space, which Windows drops"
	case isShort(name):
		return "has a name in the short 8.3 form"
	}
	return ""
}

// isDevice compares as Windows does: extensions, streams, spaces and dots
// behind the name do not matter, nor does case.
func isDevice(name string) bool {
	if len(name) < 3 {
		return false
	}
	if i := strings.IndexAny(name, ".:"); i >= 0 {
		name = name[:i]
	}
	name = strings.TrimRight(name, " ")
	switch len(name) {
	case 3:
		return anyFold(name, "con", "prn", "aux", "nul")
	case 4:
		return anyFold(name[:3], "com", "lpt") && name[3] >= '0' && name[3] <= '9'
	case 5: // superscript digits count as digits
		return anyFold(name[:3], "com", "lpt") && (name[3:] == "¹" || name[3:] == "²" || name[3:] == "³")
	default:
		return anyFold(name, "conin$", "conout$", "clock$")
	}
}

func anyFold(s string, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(s, n) })
}

// isShort recognises PROGRA~1 and SETUP~12.EXE.
func isShort(name string) bool {
	base, ext, _ := strings.Cut(name, ".")
	i := strings.LastIndexByte(base, '~')
	if i < 1 || len(base) > 8 || len(ext) > 3 || i == len(base)-1 {
		return false
	}
	return strings.Trim(base[i+1:], "0123456789") == ""
}

func isDrive(path string) bool {
	return len(path) >= 2 && path[1] == ':' && (path[0]|0x20) >= 'a' && (path[0]|0x20) <= 'z'
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }
