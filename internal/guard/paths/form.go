package paths

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// maxLength is more than any file system takes.
const maxLength = 4096

// maxQuoted is how many bytes of a path are shown in a message.
const maxQuoted = 200

// plain takes the forms that tools accept besides a bare path (file: URLs and
// the home directory) to a bare one, and refuses malformed paths.
func (w *Workspace) plain(path string) (string, error) {
	if err := w.wellFormed(path); err != nil {
		return "", err
	}
	switch {
	case isFileURL(path):
		decoded, err := w.fileURL(path)
		if err != nil {
			return "", err
		}
		return decoded, w.wellFormed(decoded)
	case hasScheme(path):
		return "", malformed(path, "is a URL, not a path", "")
	case path[0] == '~':
		return w.inHome(path, path[1:])
	case strings.HasPrefix(path, "$HOME"):
		return w.inHome(path, path[len("$HOME"):])
	case strings.HasPrefix(path, "${HOME}"):
		return w.inHome(path, path[len("${HOME}"):])
	}
	return path, nil
}

// inHome expands the home directory of the user the bridge runs as; others are
// not known.
func (w *Workspace) inHome(path, rest string) (string, error) {
	if rest != "" && !os.IsPathSeparator(rest[0]) {
		return "", malformed(path, "names another home directory or a variable", "give the path itself; a name that starts like this can be written ./"+text.Clip(path, maxQuoted))
	}
	if w.home == "" || !filepath.IsAbs(w.home) {
		return "", malformed(path, "is in the home directory, which is not known", "")
	}
	return w.home + rest, nil
}

func (w *Workspace) fileURL(path string) (string, error) {
	rest := path[len("file:"):]
	if strings.ContainsAny(rest, "?#") {
		return "", malformed(path, "is a file URL with a query or a fragment", "")
	}
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		host, local, _ := strings.Cut(after, "/")
		if host != "" && !strings.EqualFold(host, "localhost") {
			return "", malformed(path, "is a file URL of another host", "")
		}
		rest = "/" + local
	}
	if !strings.HasPrefix(rest, "/") {
		return "", malformed(path, "is a file URL without an absolute path", "")
	}
	decoded, err := url.PathUnescape(rest)
	if err != nil {
		return "", malformed(path, "is not correctly percent-encoded", "")
	}
	for i := range len(decoded) {
		if _, ok := hexByte(decoded[i:]); ok {
			return "", malformed(path, "is percent-encoded twice", "")
		}
	}
	if runtime.GOOS == "windows" && len(decoded) > 2 && isDrive(decoded[1:]) {
		decoded = decoded[1:]
	}
	return decoded, nil
}

// wellFormed refuses what no honest path contains.
func (w *Workspace) wellFormed(path string) error {
	switch {
	case path == "":
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the path is empty"}
	case len(path) > maxLength:
		return malformed(path, "is too long", "")
	case path[0] == ' ' || path[len(path)-1] == ' ':
		return malformed(path, "begins or ends with a space", "")
	}
	// How the workspace's own directory is called is not the caller's doing.
	given := path
	if after, ok := strings.CutPrefix(path, w.root); ok && after != "" && os.IsPathSeparator(after[0]) {
		given = after[1:]
	}
	if err := readable(path, given); err != nil {
		return err
	}
	if !isFileURL(path) {
		if why := foreign(given, w.windows); why != "" {
			return malformed(path, why, "")
		}
	}
	return nil
}

// readable refuses characters that do not show what they are. The directory
// of the workspace itself, which given lacks, may be called anything.
func readable(path, given string) error {
	ascii := true
	for i := range len(given) {
		c := given[i]
		switch {
		case c == 0:
			return malformed(path, "contains a NUL byte", "")
		case c < ' ' || c == 0x7f:
			return malformed(path, "contains a control character", "")
		case c == '%':
			if disguises(given[i:]) {
				return malformed(path, "hides a separator, a dot or NUL by percent-encoding", "write the path plainly")
			}
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	if ascii {
		return nil
	}
	if why := unclear(given); why != "" {
		return malformed(path, why, "")
	}
	return nil
}

// disguises reports a leading %XX that changes the meaning of a path once it is
// decoded: a separator, a dot or NUL, encoded any number of times.
func disguises(s string) bool {
	b, ok := hexByte(s)
	for ok && b == '%' {
		s = s[2:]
		b, ok = hexByte("%" + s[1:])
	}
	return ok && (b == '/' || b == '\\' || b == '.' || b == 0)
}

func isFileURL(path string) bool { return len(path) >= 5 && strings.EqualFold(path[:5], "file:") }

func hasScheme(path string) bool {
	scheme, _, ok := strings.Cut(path, "://")
	if !ok || len(scheme) < 2 {
		return false
	}
	return strings.IndexFunc(scheme, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '+' && r != '-' && r != '.'
	}) < 0
}

// hexByte decodes a leading %XX.
func hexByte(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:3], 16, 8)
	return byte(n), err == nil
}

func malformed(path, why, remedy string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: "the path " + text.Quote(path, maxQuoted) + " " + why, Remedy: remedy}
}
