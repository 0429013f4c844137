//go:build race

package redact

// underRace is whether the race detector is on, which makes everything slower.
const underRace = true
