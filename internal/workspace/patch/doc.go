// Package patch applies unified diffs to a directory, all of a diff or none
// of it.
//
// The rules are those of git apply: the same tree results, or both refuse.
// Context must match to the byte; a hunk may sit at another line than it says
// if its context does; nothing is guessed. The package knows no policy:
// Options.Check is where the caller's guard looks at each file. It is called
// by the workspace.
//
// # Where git apply differs
//
// git apply carries out some diffs in a way that they do not say, and Apply
// refuses those:
//   - a hunk that only adds lines, without context, in the middle of a file
//     (git puts them at the end);
//   - a file that is changed and then deleted or renamed by a later part of
//     the diff (git leaves the changed file), or made twice (the last wins);
//   - context that ends without a newline where the file has one (git joins
//     the line with the next);
//   - a diff with a damaged binary part (git drops the rest of the diff);
//   - a change of a directory or a submodule (git does nothing);
//   - a copy from a file outside the workspace;
//   - names that are harmless here but lead out of the workspace, or into
//     .git, on Windows or macOS.
//
// Two things are taken that git refuses or does otherwise: full hashes in
// SHA-256 are accepted for binary data in any workspace, and a changed file
// keeps its permissions where git would give it fresh ones. Attributes and
// configuration of a repository are not looked at, so line endings are never
// converted. A symbolic link is made even if its target is outside; Check is
// told the target.
//
// # Crashes
//
// New files are written beside the places that they will have, old ones get a
// second name in a directory at the top of the workspace, and a journal outside
// the workspace says how to undo it all before the first file is put in place. If the process is killed
// at any point, Recover or the next Apply restores the old tree, or, where the
// new one was complete, tidies up. With Options.Sync the same holds for a
// power cut, and a result that was reported is on the disk; without it a power
// cut may lose or mix what was written in the seconds before.
package patch
