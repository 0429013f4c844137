package paths

import (
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// openDirs is how many directories are kept open: ripgrep tells of as many at
// a time as it has threads.
const openDirs = 16

type opened struct {
	open [openDirs]openDir
	last int // the one that was used last
	next int // the one to be given up next
}

// openDir is a directory below the root, with no link on the way. "" is none.
type openDir struct {
	name string
	fd   int
}

// Resolve is Workspace.Resolve for a path below the root. What it knows no
// quick answer to is left to that: whatever is not a plain path of a regular
// file.
func (l *Lookup) Resolve(path string) (Resolved, error) {
	slash := strings.LastIndexByte(path, '/')
	if slash <= 0 || !fs.ValidPath(path) {
		return l.w.Resolve(path)
	}
	if plain, err := l.w.plain(path); err != nil || plain != path {
		return l.w.Resolve(path)
	}
	dir, ok := l.enter(path[:slash])
	if !ok {
		return l.w.Resolve(path)
	}
	var info unix.Stat_t
	if err := unix.Fstatat(dir, path[slash+1:], &info, unix.AT_SYMLINK_NOFOLLOW); err != nil || info.Mode&unix.S_IFMT != unix.S_IFREG {
		return l.w.Resolve(path)
	}
	return Resolved{Path: path, Abs: l.w.root + "/" + path, Rel: path, Inside: true, Exists: true}, nil
}

// enter returns a handle of a directory.
func (l *Lookup) enter(name string) (fd int, ok bool) {
	if d := &l.open[l.last]; d.name == name {
		return d.fd, true
	}
	for i := range l.open {
		if d := &l.open[i]; d.name == name {
			l.last = i
			return d.fd, true
		}
	}
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, l.w.root+"/"+name, how)
	if err != nil {
		return 0, false
	}
	d := &l.open[l.next]
	if d.name != "" {
		_ = unix.Close(d.fd) // a handle of a directory
	}
	*d = openDir{name, fd}
	l.last, l.next = l.next, (l.next+1)%len(l.open)
	return fd, true
}

// Close lets go of the directories.
func (l *Lookup) Close() {
	for i := range l.open {
		if l.open[i].name != "" {
			_ = unix.Close(l.open[i].fd) // a handle of a directory
		}
		l.open[i] = openDir{}
	}
}
