// Package openclaw reads OpenClaw's memory and its user's preferences: from its
// gateway where that runs, otherwise from its files. It only reads and
// hides no secrets: its callers pass what it returns through the guard.
// internal/app opens it, for the tools that internal/api/mcp serves and for
// `validate`.
package openclaw
