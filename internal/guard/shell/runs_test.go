package shell

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bench is a place where scripts can run without harm: the only programs there
// are a few that write down how they were called.
type bench struct {
	dir, bin, log string
}

// newBench makes a bench below top. Each script gets its own, so that what one
// leaves running in the background is not taken for the next one's doing.
func newBench(t testing.TB, top string) bench {
	t.Helper()
	b := bench{dir: filepath.Join(top, "dir"), bin: filepath.Join(top, "bin"), log: filepath.Join(top, "log")}
	for _, d := range []string{b.dir, b.bin} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, code := range map[string]string{"a": "exit 0", "b": "exit 1", "c": "while read -r x; do printf '%s\\n' \"$x\"; done"} {
		script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\001' %s \"$@\" END >>'%s'\n%s\n", name, b.log, code)
		if err := os.WriteFile(filepath.Join(b.bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "bash", "dash", "env", "xargs", "find", "nice", "timeout", "nohup", "setsid", "sed", "awk"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if err := os.Symlink(path, filepath.Join(b.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// run returns the commands that really ran.
func (b bench) run(t testing.TB, program, script string) [][]string {
	t.Helper()
	if err := os.WriteFile(b.log, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-c", script)
	cmd.Dir = b.dir
	cmd.Env = []string{"PATH=" + b.bin, "LC_ALL=C.UTF-8", "HOME=" + b.dir}
	cmd.WaitDelay = 100 * time.Millisecond
	endGroup := ownGroup(cmd)
	_ = cmd.Run() // what a script returns says nothing
	endGroup()
	raw, err := os.ReadFile(b.log)
	if err != nil {
		t.Fatal(err)
	}
	var calls [][]string
	for entry := range strings.SplitSeq(string(raw), "\x01END\x01") {
		if entry != "" {
			calls = append(calls, strings.Split(entry, "\x01"))
		}
	}
	return calls
}

// covers reports whether the analysis foresaw a command.
func covers(a Analysis, call []string) bool {
	return slices.ContainsFunc(a.Commands, func(c Command) bool {
		if c.DynamicName {
			return true
		}
		if shellNames[programName(c.Words[0])] && slices.Contains(c.Words[1:], call[0]) {
			return true // as a script
		}
		if programName(c.Words[0]) != call[0] {
			return false
		}
		return c.Dynamic || len(c.Globs) > 0 || slices.Equal(c.Words[1:], call[1:]) ||
			slices.ContainsFunc(c.Words, func(w string) bool { return w == "{}" || strings.Contains(w, "~") }) // known only when it runs
	})
}

// scripts builds random scripts out of valid pieces, and spoils some of them.
type scripts struct{ *rand.Rand }

func (g scripts) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g scripts) word() string {
	return g.pick("x", "y", "'x y'", `"x"`, `\x`, "x\\\ny", "$x", "$(a)", "`b`", `"$(c)"`, "{x,y}", "$'x\\ty'", "'$(a)'", `"\$(a)"`, "x=y", "-x", "*", "''", "${x:-y}", "${x:-$(b)}",
		"$((1+1))", "$((x[$(a)]))", "x#y", `"a b"`, "<(a)", "`a \\`b\\``", `"`+"`a \\\"x\\\"`"+`"`, "''x", "é")
}

func (g scripts) simple() string {
	s := g.pick("a", "b", "c", "'a'", `"b"`, `\c`, "a", "b")
	for range g.IntN(3) {
		s += " " + g.word()
	}
	switch g.IntN(12) {
	case 0:
		s = "x=" + g.word() + " " + s
	case 1:
		s += " >" + g.pick("o", "p", "/dev/null")
	case 2:
		s += " 2>&1"
	case 3:
		s += " <<E\n" + g.pick("x", "$(a)", "`b x`", "\\$(a)") + "\nE\n"
	case 4:
		s += " <<'E'\n$(a z)\nE\n"
	case 5:
		s += " <<<" + g.word()
	}
	return s
}

func (g scripts) list(depth int) string {
	if depth <= 0 {
		return g.simple()
	}
	in := func() string { return g.list(depth - 1 - g.IntN(2)) }
	switch g.IntN(30) {
	case 0, 1:
		return in() + g.pick("; ", "\n", " && ", " || ", " | ", " & ", "&&", "||", ";", " |& ") + in()
	case 2:
		return "(" + in() + ")"
	case 3:
		return "{ " + in() + "\n}"
	case 4:
		return "if " + in() + "\nthen " + in() + "\nelse " + in() + "\nfi"
	case 5:
		return "for x in " + g.word() + " " + g.word() + "; do " + in() + "\ndone"
	case 6:
		return "while b; do " + in() + "\ndone"
	case 7:
		return "case x in (y|x) " + in() + "\n;; *) " + in() + "\nesac"
	case 8:
		return "! " + in()
	case 9:
		return "f() { " + in() + "\n}\nf x"
	case 10:
		return "eval " + quoteFor(g, in())
	case 11:
		return g.pick("bash", "sh", "bash -e", "sh -ec", "bash -lc", "dash", "env bash") + g.pick(" -c ", " -c ", " -c -- ") + quoteFor(g, in())
	case 12:
		return g.pick("env", "env x=1", "env -i PATH=\"$PATH\"", "nice", "nice -n 1", "timeout 1", "timeout -k 1 1", "command", "nohup", "setsid -w", "time", "builtin eval", "exec", "env -u x") + " " + g.simple()
	case 13:
		return "trap " + quoteFor(g, in()) + " EXIT"
	case 14:
		return "echo x | xargs " + g.pick("", "-n1 ", "-I{} ", "-0 ", "-r ") + g.pick("a", "b y", "c {}", "env a", "sh -c 'a \"$0\"'")
	case 15:
		return "find . -maxdepth 0 " + g.pick("-exec", "-execdir", "-name . -exec") + " " + g.pick("a {} ", "b x{} ", "c ", "sh -c 'a {}' ", "env b {} ", "a {} {} ") + g.pick("\\;", "';'", "\\;")
	case 16:
		return "x=" + g.word() + "; " + in()
	case 17:
		return "[[ " + g.word() + " == x ]] && " + in()
	case 18:
		return "(( x = 1 )) || " + in()
	case 19:
		return g.pick("bash", "sh", "bash -s") + " <<" + g.pick("E", "'E'", `\E`) + "\n" + in() + "\nE\n"
	case 20:
		return "coproc " + g.pick("a x", "{ "+g.simple()+"\n}", "NAME { b; }", "a >o", "NAME (b)", "x=1 a") + "\nwait"
	case 21:
		return "echo $(" + in() + "\n)"
	case 22:
		return "echo \"$(" + in() + "\n)\""
	case 23:
		return "echo `" + g.simple() + "`"
	case 24:
		return "a <(" + in() + "\n)"
	case 25:
		return g.pick("cd .", "cd nowhere", "mkdir q", "export x=1", "set -e", "set +e", "true", "false", ":") + g.pick("; ", " && ", " || ") + in()
	case 26:
		return "local() { " + in() + "\n}; local"
	case 27:
		return "echo " + quoteFor(g, in()) + " | " + g.pick("bash", "sh", "c", "xargs", "env sh")
	case 28:
		return "for ((x=0; x<1; x++)); do " + in() + "\ndone"
	default:
		return in() + "\n" + in()
	}
}

// quoteFor wraps a script so that it is one word.
func quoteFor(g scripts, script string) string {
	if g.IntN(4) == 0 {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(script) + `"`
	}
	return "'" + strings.ReplaceAll(script, "'", `'\''`) + "'"
}

// spoil inserts, removes or doubles a piece.
func (g scripts) spoil(s string) string {
	at := g.IntN(len(s) + 1)
	switch g.IntN(3) {
	case 0:
		end := min(len(s), at+1+g.IntN(3))
		return s[:at] + s[end:]
	case 1:
		return s[:at] + g.pick("'", `"`, "`", `\`, "$", "(", ")", "{", "}", ";", "&", "|", "<", ">", "\n", " ", "#", "!", "*", "=", "[", "]", "$(", "${", "<<", "a", "\\\n", "((", "))", "{a,b}", "~", "if ", "fi", "do ", "@(", "!(", "$'", `\\`, "E\n", ";;", "$((", "<(", ">(", "&>", "function ", "case ", "in ") + s[at:]
	default:
		end := min(len(s), at+1+g.IntN(8))
		return s[:end] + s[at:]
	}
}

// TestCommandsAgainstShells runs random scripts for real, in a place without
// programs that do anything, and holds that every command that ran had been
// listed, unless the analysis refused the script. SHELL_ROUNDS and SHELL_SEED
// make it run longer and on other scripts.
func TestCommandsAgainstShells(t *testing.T) {
	rounds, seed := 300, uint64(7)
	if n, err := strconv.Atoi(os.Getenv("SHELL_ROUNDS")); err == nil {
		rounds = n
	}
	if n, err := strconv.ParseUint(os.Getenv("SHELL_SEED"), 10, 64); err == nil {
		seed = n
	}
	for _, program := range []string{"bash", "dash"} {
		t.Run(program, func(t *testing.T) {
			path, err := exec.LookPath(program)
			if err != nil && program == "dash" {
				path, err = exec.LookPath("sh")
			}
			if err != nil {
				t.Fatal(err)
			}
			if program == "bash" {
				compareRuns(t, path, rounds, seed, 4, func(script string) string { return script })
				return
			}
			// Only plain scripts of sh are followed.
			compareRuns(t, path, rounds, seed, 1, func(script string) string {
				return "sh -c '" + strings.ReplaceAll(script, "'", `'\''`) + "'"
			})
		})
	}
}

func compareRuns(t *testing.T, program string, rounds int, seed uint64, depth int, line func(script string) string) {
	top := t.TempDir()
	g := scripts{rand.New(rand.NewPCG(seed, 11))}
	var ran, checked int
	for round := range rounds {
		script := g.list(g.IntN(depth + 1))
		for range g.IntN(3) {
			script = g.spoil(script)
		}
		if len(script) > 4000 {
			continue
		}
		if readable(script) != nil {
			continue
		}
		a, err := analyse(line(script)) // which does not recover
		if err != nil || len(a.Opaque) > 0 {
			continue
		}
		checked++
		for _, call := range newBench(t, filepath.Join(top, strconv.Itoa(round))).run(t, program, script) {
			ran++
			if !covers(a, call) {
				t.Errorf("%q ran\n%s\nwhich lists\n%s", call, script, describe(a, nil))
				break
			}
		}
	}
	t.Logf("%d scripts checked, %d commands ran", checked, ran)
	if checked < rounds/20 || ran < checked/4 {
		t.Errorf("only %d scripts were checked and %d commands ran", checked, ran)
	}
}
