// Package oracle compares what the guard expects of shell commands with what
// they really do: it generates commands, runs those that the guard allows under
// strace, among traps, and reports effects that the analysis did not list. It
// has no list of commands; those that people thought of are in test/attempts.
// `make test` and `make test-sandbox` run a sample, `make oracle` 50,000.
package oracle
