// Package git runs the git program for the whole bridge; nothing else does. It
// runs nothing that a repository asks for.
//
// A repository's own configuration can name programs: filters, merge drivers,
// hooks, a file system monitor, a transport. A list of the dangerous keys
// would never be whole, and could change between a check and its use. So all
// work on contents is done on a view: a git directory of ours with a
// configuration of ours, which sees the objects of the repository and an index
// and a working tree that each call names. That configuration is the user's
// (system and global), then harmless values of the repository's by an allow
// list, then what we insist on. The user's own filters and merge drivers
// therefore work; those that only the repository defines do not exist. A
// filter that the repository calls required stays required, so that git
// refuses files it cannot convert instead of storing or writing them raw.
//
// The repository itself is used for names only: finding it, listing its
// configuration, reading HEAD, updating references, registering a worktree.
// These commands convert no contents; hooks, the monitor and every transport
// are switched off for them, in a way that wins over the repository's values.
//
// Callers: orchestrate, and the abp door for its receipts. SafeEnviron is for
// everybody who starts other programs in a workspace.
package git
