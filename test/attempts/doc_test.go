// Package attempts runs the guard's tables of attempts and of ordinary work
// through every door of the built program, on the real Copilot runtime. Only
// the model's words are scripted. What counts is what came of a call: what the
// model and the client got to see, and what changed on disk.
package attempts
