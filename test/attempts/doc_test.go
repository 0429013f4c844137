// Package attempts runs the guard's tables of attempts and of ordinary work
// through every door of the built program: each command, API and protocol. The
// Copilot runtime is real; only the model's answers are scripted. The tests
// check what a call did: what the model and the client saw, and what changed on
// disk.
package attempts
