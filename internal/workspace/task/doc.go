// Package task finds the tasks that a workspace declares (for VS Code, make and
// npm, or in the bridge's configuration) and runs commands with bounds on time
// and output. Finding tasks only reads files and executes nothing of the
// workspace. It knows no policy: package workspace, its main caller, decides
// whether a command may run. Package lsp runs formatters with it.
package task
