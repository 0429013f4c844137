package orchestrate

// MergeMode says where finished work goes.
type MergeMode string

// The modes of merging.
const (
	MergeTree   MergeMode = "tree"   // into the user's tree, as uncommitted changes
	MergeBranch MergeMode = "branch" // onto a branch of its own
)

// Isolation says where tasks work.
type Isolation string

// The kinds of isolation.
const (
	IsolationWorktree Isolation = "worktree" // each in a git worktree of its own
	IsolationShared   Isolation = "shared"   // all in the one directory
)
