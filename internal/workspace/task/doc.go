// Package task finds the tasks that a workspace declares (for VS Code, make
// and npm, or in the bridge's own configuration) and runs commands with
// bounds on time and output.
//
// It knows no policy: whether a command may run is decided by the workspace
// package, its caller. Finding tasks only reads files, through the root it is
// given; nothing of the workspace is executed by it.
package task
