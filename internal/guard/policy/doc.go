// Package policy decides whether a tool call may happen. It gets a call that
// has been analysed already (an [Action]: which files, commands and hosts it is
// about), and says allow, ask or deny, and by which rule. It is pure: it
// resolves no path, parses no command and asks nobody; the guard does that
// around it. It touches the disk only to read policy files and the record of
// which of them are trusted.
//
// # Rules
//
// One rule set, written in one of three dialects. The file, which is
// .agent-policy.yaml at the root of a workspace or policy.yaml in the bridge's
// own directory:
//
//	readOnly: true
//	tools:    { allow: [], deny: ["web_*"], ask: [bash] }
//	patterns: { deny: ['rm\s+-rf\s+/'] }
//	reads:    { allow: ["**"], deny: ["**/.env", "**/id_rsa"] }
//	writes:   { allow: ["src/**/*.ts"], deny: ["**/node_modules/**"] }
//	shell:    { allow: ["npm test", "go test *", "builtin:read-only"], deny: ["git push"] }
//	network:  { allow: ["*.example.com", "10.0.0.0/8"], deny: ["169.254.169.254"] }
//	sandbox:  { read: [/srv/data], write: [/var/cache/x], network: [example.com], shell: [npm install] }
//
// The environment's and plugins' allowedTools, blockedTools, askTools and
// blockedPatterns, which a file may use at its top level as well (but not
// together with the list that they stand for). And the policy of an ABP work
// order. Patterns that begin with *, & or ! need quotes in YAML.
//
// A file is read strictly: a key that is not known, a list that is none, a
// pattern that cannot be compiled is an error with its line, and nothing runs.
//
// An empty allow list allows everything. One that is not empty denies all that
// is not on it. A denial beats everything.
//
// # Tools
//
// Names or globs, without regard to case. An MCP tool is called server/tool,
// server-tool or mcp:server-tool; deny and ask rules may also use its bare
// name, allow rules may not, because a server could name its tool bash. Other
// tools have their name, with builtin: or custom: in front if one likes. In
// globs * stands for anything, ? for one character, [ab] and {a,b} as usual.
//
//	web_*            web_fetch, web_search
//	github/*         every tool of the MCP server github; so do github-* and mcp:github-*
//	*                every tool
//
// A layer's tools.ask need not be repeated in its tools.allow. Being named by
// tools.allow of a trusted layer (not by * alone) lifts the default to ask of
// an MCP tool; it lifts nothing of what shell and network are about.
//
// # Patterns
//
// Regular expressions (RE2) over a call's arguments: over every string at any
// depth, over key=value of every scalar, and over the compact JSON of the
// whole; also over each command and path that the analysis found. Arguments
// beyond 1 MiB cannot be checked and are denied if there are patterns.
//
//	rm\s+-rf\s+/     {"command": "rm  -rf /tmp"}
//	^detach=true$    {"detach": true}
//	"mode":"async"   {"mode": "async"}
//
// # Reads and writes
//
// Globs over the path relative to the workspace, with slashes, after links
// have been followed. They match all of the path: * and ? stay within a
// directory, ** stands for any number of directories, none included, and must
// stand alone between slashes.
//
//	.env             .env at the root only
//	**/.env          .env, a/.env, a/b/.env
//	src/*            src/a, not src/a/b
//	src/**           src, src/a, src/a/b
//	src/**/*.ts      src/x.ts, src/a/b/x.ts
//	*.{md,txt}       a.md, b.txt
//	app/\[id\].tsx   app/[id].tsx
//	secrets/         the same as secrets/**
//
// A deny glob whose last part has no wildcard also denies what is below:
// secrets denies secrets/a, **/.env denies .env/x; an allow glob does not. Deny
// globs are matched without regard to case, and also against what a forgiving
// file system would make of the path: without invisible characters, trailing
// dots and spaces and stream suffixes. Allow globs are matched exactly, or
// without regard to case if Defaults.CaseInsensitive says that the file system
// is like that. Names that differ in Unicode normal form are different. An
// absolute glob is matched against the absolute path.
//
// A path outside the workspace is always denied. When an action touches a
// whole tree in which a denied file may be, it is asked about; and only an
// allow glob that ends in ** covers a whole tree. Whoever can leave the denied
// files out of a search (see [Policy.ReadDenied]) need not have it asked.
//
// Never written, whatever the rules: .agent-policy.yaml and .agent-policy.yml
// in any directory; any .git directory or file and all that is in it, hooks
// and config of bare repositories (x.git) too, also under the names that
// Windows and macOS take for them; files named HEAD, which can make a directory
// a repository; the directories that the caller protects.
//
// Written with consent only, whatever the rules and lists of allowed tools:
// files that configure agents, hooks, editors, environments and git (.github/hooks,
// .claude, AGENTS.md, .mcp.json, .vscode/tasks.json, .env, .gitattributes …; see
// docs/security.md for all). They make something run without a command that is
// judged, or change what an agent is told.
//
// Both hold for every component of the absolute path, also above the
// workspace, for the path as it resolves and as it was written.
//
// # Shell
//
// Rules are compared with each simple command, word by word after quotes are
// removed; an action may run only if every one of its commands may.
//
//	npm test         allow: npm test and nothing else
//	go test *        allow: go test, go test ./..., go test -run X
//	CI=1 npm test    allow: with exactly this assignment; without it is another command
//	*                allow: any command
//	builtin:read-only  allow: the built-in list of commands that only read
//	git push         deny: every command that begins so: git push, git push -f
//	rm               deny: rm, /bin/rm, RM.exe, with any arguments
//
// A deny rule passes over options and the word behind each, which may be its
// value: git push also denies git -C . push and git --no-pager push. An option
// in a deny rule may stand anywhere behind. A subcommand of git that git does
// not have may be an alias for any other, and every deny rule for git matches.
//
// The final * is the only wildcard. Assignments in front of a command are part
// of it for allow rules, and no matter to deny rules. In a deny rule the
// program's name is compared without its directory, case and .exe. A command that is only partly known is denied
// if a deny rule may match it, and otherwise asked about.
//
// The built-in read-only commands are ls, cat, head, tail, wc, grep, rg, find,
// git status/diff/log/show/branch/rev-parse/ls-files/blame, pwd, echo, printf,
// date, uname, whoami, id, which, type, stat, file, du, df, sort, uniq, cut,
// tr, diff, cmp, basename, dirname, realpath, readlink, true, false, test, [
// and env without arguments, as long as no flag makes them write, run another
// program, or read what the rules for paths cannot see. A flag that is not
// known is taken for one that does, and so are a repository whose own settings
// name programs, an environment that was changed (env -i), and a glob such as * at the beginning
// of a word, since a file may be called like a flag (./* is fine). They need no consent; but a shell.allow
// that is not empty must name them, or builtin:read-only, as well.
//
// # Network
//
//	example.com        that name, at any port
//	*.example.com      every name below it; in a deny rule also example.com itself
//	api-*.example.com  * stays within one part of a name
//	example.com:8443   that port only; if a port is not known, deny rules match and allow rules do not
//	192.0.2.7, ::1, [::1]:443, 10.0.0.0/8, fd00::/8
//	*, *:443
//
// Names are not resolved: a rule for 127.0.0.1 does not cover localhost.
// Spellings of addresses that programs read in different ways (0x7f.1) are
// denied.
//
// # Sandbox
//
// What programs inside a sandbox get without a question. These lists only ease:
// nothing is denied for not being on them, they lift no rule that denies or
// asks, and those of a layer that is not trusted do not count.
//
//	read: /srv/data        that path and all below it; absolute, no wildcards
//	write: /var/cache/x    the same, to be changed too
//	network: example.com   a command that names this host; also host:port, *.name and *
//	shell: npm install     exactly this command; with the network if it is of no use without
//
// An action whose Wall is whole is held by the operating system to what the
// rules say. Then nothing is asked about it but: what tools.ask names, writing
// what configures agents, commands that may destroy work which is not
// committed, paths outside that the sandbox does not show, and the network.
// Whether to open the network is all or nothing; so where it is open because a
// rule allows a host, what runs beside is asked about as without a sandbox.
// With gaps nothing is lifted.
//
// # Layers
//
// Several sources combine so that each can only tighten: denials and asks
// unite, everything must be on every allow list that is not empty, and
// readOnly: true wins. Allow rules of a trusted layer moreover lift defaults:
// a command or host that they name is no longer asked about, and readOnly:
// false makes a workspace writable that is read-only by default. Nothing lifts
// what another layer says. A workspace's own file is not trusted until the
// user has said so ([Trust]); any change of its bytes revokes that. The order
// of layers makes no difference but to the reason that is given.
//
// # Decision
//
// The strictest of all that applies wins. Among equals the reason is that of
// the first in this order: denied tool, denied pattern, path (outside, denied,
// read-only, not on the list), network, shell, ask, tools.allow, default.
// Whatever is not understood is denied, an unknown kind of action and a failure
// in here included.
//
// In a read-only workspace nothing is written, commands run only if they are on
// the built-in list, and MCP tools only if they say that they change nothing.
package policy
