// Package openclaw tests the bridge with the real OpenClaw: its gateway, its
// agent and its command line, against the built binary and the real Copilot
// runtime; the rehearsal model gives the words. `make test-openclaw` runs it.
package openclaw
