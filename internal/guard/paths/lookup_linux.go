package paths

import (
	"io/fs"
	"strings"
	"unicode/utf8"

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

// Inside says where a path below the root leads, relative to the root; ok is
// false if that is outside, or if Resolve gives an error. What there is no
// quick answer to is left to Resolve: all but regular files with plain names.
func (l *Lookup) Inside(path string) (rel string, ok bool) {
	slash := strings.LastIndexByte(path, '/')
	if slash <= 0 || len(path) > maxLength || l.w.windows || !simple(path[slash+1:]) {
		return l.resolve(path)
	}
	dir, ok := l.enter(path[:slash])
	if !ok {
		return l.resolve(path)
	}
	var info unix.Stat_t
	if err := unix.Fstatat(dir, path[slash+1:], &info, unix.AT_SYMLINK_NOFOLLOW); err != nil || info.Mode&unix.S_IFMT != unix.S_IFREG {
		return l.resolve(path)
	}
	return path, true
}

// simple tells names that mean the same to everybody, whatever directory they
// are in.
func simple(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return name != "" && name != "." && name != ".." && !isDevice(name)
}

// straightforward tells directories whose name says nothing but where they
// are.
func (l *Lookup) straightforward(dir string) bool {
	for i := range len(dir) {
		if dir[i] >= utf8.RuneSelf {
			return false
		}
	}
	plain, err := l.w.plain(dir)
	return err == nil && plain == dir && dir != "." && fs.ValidPath(dir)
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
	if !l.straightforward(name) {
		return 0, false
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
