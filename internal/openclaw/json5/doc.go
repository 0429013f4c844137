// Package json5 reads JSON5, in which OpenClaw's configuration may be written,
// and changes single values of it: comments, order and the rest of the text
// stay as they are. It does not know what a document means. internal/openclaw
// reads with it; internal/openclaw/registration reads and writes with it.
package json5
