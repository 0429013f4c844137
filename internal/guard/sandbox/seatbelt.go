package sandbox

import (
	"fmt"
	"strings"
)

// seatbelt is the profile for macOS's sandbox-exec. The last rule that fits
// counts there, so deeper places come later. There is no private /tmp: TMPDIR
// leads to a directory that is kept for the workspace. Untried.
func seatbelt(network bool, places []place) string {
	var b strings.Builder
	rule := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	rule(`(version 1)`)
	rule(`(deny default)`)
	rule(`(import "system.sb")`)
	rule(`(allow process-fork process-exec sysctl-read)`)
	rule(`(allow signal process-info* (target same-sandbox))`)
	rule(`(allow file-read-metadata)`) // names can be looked up, but not listed
	rule(`(allow file-read* file-write* (literal "/dev/null") (literal "/dev/zero") (subpath "/dev/fd"))`)
	rule(`(allow file-read* (literal "/") (literal "/dev/random") (literal "/dev/urandom"))`)
	for _, path := range system {
		rule(`(allow file-read* (subpath %s))`, scheme(path))
	}
	for _, p := range places {
		path := scheme(p.path)
		switch p.may {
		case write:
			rule(`(allow file-read* file-write* (subpath %s))`, path)
			rule(`(deny file-write-unlink (literal %s))`, path)
		case read:
			rule(`(allow file-read* (subpath %s))`, path)
			rule(`(deny file-write* (subpath %s))`, path)
		case hide:
			rule(`(deny file-read* file-write* (subpath %s))`, path)
		}
	}
	if network {
		rule(`(allow network*)`)
	}
	return b.String()
}

// scheme is a string as profiles have it.
func scheme(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
