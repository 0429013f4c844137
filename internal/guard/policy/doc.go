// Package policy decides whether a tool call may happen. It gets a call that
// has been analysed already (an [Action]: which files, commands and hosts it is
// about), and says allow, ask or deny, and by which rule. It resolves no path,
// parses no command and asks no person: the guard, its only caller on the way to
// a decision, does that. It reads policy files and the record of which of them
// are trusted. docs/reference/policy-rules.md has the meaning of every rule.
package policy
