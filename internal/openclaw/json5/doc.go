// Package json5 reads JSON5, which is how OpenClaw's configuration may be
// written, and changes single values of it without touching the rest: comments,
// order, spacing and the ways of writing stay as they are, and what was changed
// can be taken back byte for byte.
//
// It knows nothing of what a document means. openclaw reads with it,
// registration writes with it.
package json5
