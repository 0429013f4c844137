// Package patch applies unified diffs to a directory, all of a diff or none of
// it, by the rules of git apply. Context must match to the byte; a hunk may sit
// at another line if its context does; nothing is guessed. It knows no policy:
// Options.Check is where the caller's guard judges each file. It does not run
// git. Package workspace calls it.
package patch
