// Package fleet runs a fleet as its users do: the built program on five hosts,
// with a slow network that loses packets, and with hosts that are killed, frozen
// and cut off. `make test-fleet` runs it; it needs root, for namespaces.
package fleet
