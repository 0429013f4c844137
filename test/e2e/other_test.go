//go:build !linux

package e2e

// platformCommands are those that look for processes, which need /proc.
func platformCommands() map[string]scriptCommand { return nil }
