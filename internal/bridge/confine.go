package bridge

// Confinement is what the operating system lets the programs of a session see
// and change. Of several entries that hold for a path the deepest one counts;
// of the same path Hide counts before Read, and Read before Write. Paths are
// absolute and have no links in them. What no entry is about and is not part
// of the system (/usr, /etc and the like) does not exist inside.
type Confinement struct {
	Write []string // may be changed: the workspace, caches that are kept for it
	Read  []string // may be read: toolchains, package caches, protected parts of the workspace
	Hide  []string // may not be read: credentials, what the policy denies
	// Network lets programs reach every host. Without it they reach none, the
	// local machine included.
	Network bool
	// Env are variables of the programs inside, on top of their environment:
	// where caches are, who commits.
	Env []string
}
