// Package shell reads shell commands without running them. It parses a script
// as bash would and lists what would happen: every simple command at any
// depth, redirections, assignments, paths and network addresses, and the
// places where something would run that cannot be seen. ParseHost reads the
// addresses.
//
// It knows no policy. The guard asks it before a shell tool runs and decides
// by what is listed; an error, and everything in Opaque, is for the guard to
// refuse. What a program does once it has been started is not visible here.
//
// The aim is that nothing is missing: where bash's meaning depends on what is
// only known when it runs, a word is marked dynamic rather than guessed, and a
// path or an address is listed rather than left out. Paths, writes and
// addresses of programs that take them in unusual ways are best effort.
package shell
