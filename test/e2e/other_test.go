//go:build !linux

package e2e

// platformCommands are script commands that need /proc, so there are none here.
func platformCommands() map[string]scriptCommand { return nil }
