// Package orchestrate does a large task in parts: it asks the model for a
// plan, runs the parts as soon as what they depend on is done, each in a git
// worktree of its own, puts their work together again, and keeps a journal by
// which a run goes on after any interruption.
//
// The scheduler knows a graph and an Executor and nothing else, so that parts
// may one day run on other machines; Local is the executor that runs them in
// sessions of this process. The package decides nothing about what a session
// may do: whoever opens sessions for it puts the guard in front of them. The
// composition root wires it; the command line and tools call Run and Resume.
package orchestrate
