package bridge

import (
	"context"
	"path"
	"slices"
)

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
	// Hosts are all that programs reach with Network, if there are any. An agent
	// that cannot hold them to it lets them reach every host.
	Hosts []string
	// Env are variables of the programs inside, on top of their environment:
	// where caches are, who commits.
	Env []string
}

// Confiner is a Gate that knows what the programs of its session may see and
// change. An agent that can hold a confinement asks it when the session is
// opened, when it is resumed and before every turn, and refuses the session or
// the turn if it fails. Nil means that there is no sandbox; where one stands
// already it stays.
type Confiner interface {
	Confinement(ctx context.Context) (*Confinement, error)
}

// With returns the confinement widened by a grant. A granted path is no longer
// hidden, and no longer read-only if the grant lets it be written. Entries below
// it still count.
func (c Confinement) With(grant Confinement) Confinement {
	without := func(paths []string, granted ...string) []string {
		return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(granted, p) })
	}
	// A read-only file in a writable directory needs no separate entry to be
	// written. With one it would be a mount point, and git could not replace it.
	more := slices.DeleteFunc(slices.Clone(grant.Write), func(p string) bool {
		return slices.Contains(c.Read, p) && slices.Contains(c.Write, path.Dir(p))
	})
	hosts := grant.Hosts
	switch {
	case !grant.Network:
		hosts = c.Hosts
	case c.Network && (len(c.Hosts) == 0 || len(hosts) == 0):
		hosts = nil
	case c.Network:
		hosts = slices.Concat(c.Hosts, hosts)
	}
	return Confinement{
		Write:   slices.Concat(c.Write, more),
		Read:    slices.Concat(without(c.Read, grant.Write...), grant.Read),
		Hide:    slices.Concat(without(without(c.Hide, grant.Write...), grant.Read...), grant.Hide),
		Network: c.Network || grant.Network,
		Hosts:   hosts,
		Env:     slices.Concat(c.Env, grant.Env),
	}
}
