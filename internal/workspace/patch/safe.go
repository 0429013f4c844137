package patch

import (
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// stagePrefix begins the names of new files, and of the directories that hold
// old ones, while a diff is being applied.
const stagePrefix = ".copilot-bridge-patch-"

// StagePattern matches those names.
const StagePattern = stagePrefix + "*"

const maxName = 4096

func unsafePath(name, why string) error {
	return &bridge.Error{
		Code:    bridge.CodeInvalid,
		Message: fmt.Sprintf("%s %s", printable(name), why),
		Remedy:  "Name files relative to the workspace; its .git directories cannot be patched.",
	}
}

// unsafeName says why a name in a diff must not be used, "" if it may be. It
// refuses what git refuses, and the forms by which Windows or macOS could read
// the name as another one. link is true if the file is to be a symbolic link.
func unsafeName(name string, link bool) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return "is too long"
	case strings.IndexByte(name, 0) >= 0:
		return "contains a NUL byte"
	case name[0] == '/' || name[0] == '\\':
		return "is not relative to the workspace"
	case len(name) > 1 && name[1] == ':' && isLetter(name[0]) && (runtime.GOOS == "windows" || len(name) == 2 || name[2] == '/' || name[2] == '\\'):
		return "begins with a drive letter"
	case runtime.GOOS == "windows" && strings.ContainsAny(name, `\:`):
		return "has characters that Windows takes for separators"
	case strings.HasPrefix(name, stagePrefix):
		return "is reserved"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." {
			return "has an empty or meaningless component"
		}
		// Elsewhere a backslash is part of a name, but nothing good can come
		// of one before or behind two dots.
		for piece := range strings.SplitSeq(part, `\`) {
			if piece == ".." {
				return "leads out of the workspace"
			}
			if isDotGit(piece, "git", "git~1") {
				return "is inside a .git directory"
			}
			if link && isDotGit(piece, "gitmodules", "gitmod~1", "gitmod~2", "gitmod~3", "gitmod~4") {
				return "must not be a symbolic link"
			}
		}
	}
	return ""
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isDotGit tells a name that some file system takes for .git: regardless of
// case, with invisible characters in it (macOS), in its short form, or with
// dots, spaces or a stream name behind it (Windows).
func isDotGit(name, base string, short ...string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	if name[0] != '.' && name[0]|0x20 != 'g' && name[0] < utf8.RuneSelf {
		return false
	}
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	name = strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, name)
	if strings.EqualFold(name, "."+base) {
		return true
	}
	for _, s := range short {
		if strings.EqualFold(name, s) {
			return true
		}
	}
	return false
}
