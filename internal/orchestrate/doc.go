// Package orchestrate does a large task in parts: it asks the model for a plan,
// runs the parts when what they depend on is done, each in a git worktree,
// merges their work, and keeps a journal to resume from. It decides nothing
// about what a session may do: its caller opens the sessions, with the guard in
// front. internal/app, internal/cli and the public package call it.
package orchestrate
