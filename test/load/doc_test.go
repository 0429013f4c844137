// Package load tests the built binary under load, hang-ups and strangers: many
// clients at a time on all three HTTP APIs, the real Copilot runtime behind
// them, and a model whose side of it is seen too. LOAD_SCALE turns the counts
// up; at 1 the package is meant to fit into every test run.
//
// It looks for processes, descriptors and memory in /proc, so it runs on Linux
// alone.
package load
