// Package git runs git for the bridge, and nothing that a repository asks for:
// contents are handled on a view with settings of our own (see Repository). It
// does not judge the git commands of models and people, which is the guard's.
// internal/orchestrate works with it, internal/api/abp makes receipts with it,
// and internal/app takes SafeEnviron for programs that run in a workspace.
package git
