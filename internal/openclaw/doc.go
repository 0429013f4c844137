// Package openclaw finds what OpenClaw knows: its memory and its user's
// preferences, asked of its gateway where that runs, else read from its files.
// It only reads. gateway and memory below it do the work; the MCP door and
// `validate` call this package.
//
// It hides no secrets: whoever shows what it returns passes it through the
// guard.
package openclaw
