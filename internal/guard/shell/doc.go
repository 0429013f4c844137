// Package shell reads shell commands without running them. It parses a script
// as bash would and lists its commands at any depth, redirections, assignments,
// paths, network addresses, and the places where something unseen would run. It
// knows no policy, and what a program does once it runs is not visible to it.
// The guard calls it before a shell tool runs. An error, and everything in
// Analysis.Opaque, is for the guard to refuse.
package shell
