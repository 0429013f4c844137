// Package supervise owns process trees: it starts a program so that nothing
// the program ever starts can outlive the bridge, even when the bridge, the
// program, or the supervisor itself is killed with SIGKILL.
//
// Between the bridge and the program stands a small supervisor: the bridge's
// own binary, called with Verb. The program inherits its standard streams, so
// no byte passes through the supervisor. It notices the bridge's death by the
// hang-up of its standard input (which it never reads), ends the tree by
// SIGTERM and then SIGKILL, and on Linux is the sub-reaper of everything below
// it, so that processes which detached themselves are still found. All of
// them also carry the tree's id in their environment: Sweep finds them by it
// when the supervisor was killed too, and Reap does so for the trees of a
// bridge that is gone.
//
// Linux is what is tested. macOS has no sub-reaper, so a process that left
// its parent before the end is only found by its group; Windows uses a job
// object. Both are untried.
package supervise
