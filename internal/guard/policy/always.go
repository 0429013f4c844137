package policy

import (
	"errors"
	"strings"
)

// lineSeparator stands between the directory and the command line of a rule of
// always.shell.
const lineSeparator = ": "

// LineOf is a command line in a directory, as always.shell has it.
func LineOf(dir, command string) string { return dir + lineSeparator + command }

// compileLine takes a command line in a directory. It is compared as a whole,
// to the byte: what was asked about is allowed, and nothing else.
func compileLine(r *Rule) error {
	dir, command, ok := strings.Cut(r.Pattern, lineSeparator)
	if !ok || !isAbsolute(dir) || strings.TrimSpace(command) == "" {
		return errors.New("write the absolute directory, a colon, a blank and the command line, such as /home/me/app: npm test")
	}
	return nil
}

// lineAddition is the rule that would allow the action's command line always,
// where its words tell what runs. Inside a sandbox there are narrower ones.
func (e *evaluation) lineAddition(cmd *Command) []Addition {
	if e.a.Line == "" || e.a.Wall != NoWall || e.p.readOnly || cmd.opaque() || len(cmd.Globs) > 0 || cmd.Unsafe != "" {
		return nil
	}
	return compiling(Addition{"always.shell", e.a.Line})
}

// always lifts a question by the rule that it offers.
func (e *evaluation) always() {
	if e.out.Verdict != Ask || len(e.out.Lasting) != 1 || e.out.Lasting[0].List != "always.shell" {
		return
	}
	if r := first(e.p.rules["always.shell"], func(r *Rule) bool { return r.Pattern == e.a.Line }); r != nil {
		e.out = Outcome{Verdict: Allow, Stage: StageShell, Subject: e.out.Subject, Rule: *r, Reason: "allowed by " + r.String()}
	}
}
