// Package oracle compares what the guard says of shell commands with what they
// do. A table of attempts only has what somebody thought of; here commands are
// generated, and the kernel is the judge.
//
// A case is a command: a construct of the shell, around programs that
// policy.ReadOnlyCommands lists, with options that the programs' own help
// names, in every spelling, and with files, links and odd names as values. The
// guard judges it as the tool bus would, with the default policy and nobody to
// ask. What it allows is run as the tool bus runs it, in a tree full of traps:
// files outside of the workspace, files that reads.deny names, links to both,
// repositories whose settings name programs, and a listener.
//
// strace watches. These effects are escapes:
//
//   - a file is written, created, moved or removed, or its mode is changed, and
//     the analysis did not list it as a file that is written,
//   - a program is started that the analysis did not list,
//   - a file outside of the workspace or one that reads.deny names is opened, or
//     a directory outside is listed,
//   - a socket is connected or bound,
//   - the text of a denied file is in the output, by whatever way.
//
// What programs read of the system is in the table ignored, with reasons. That
// a file outside exists, its size and its owner are not escapes: links are
// shown with what they lead to.
//
// Cases are made of a seed and their number alone, so that one can be run again:
//
//	make oracle SEED=7 CASES=50000
//	COPILOT_BRIDGE_TEST_ORACLE_SEED=7 COPILOT_BRIDGE_TEST_ORACLE_CASE=1234 go test -v -run Escapes ./test/oracle
//
// No file is removed and no clock is set, even if the guard is wrong: strace
// lets every call fail that changes more than the contents of a file.
package oracle
