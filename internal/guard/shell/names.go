package shell

import (
	"strconv"
	"strings"
	"unicode"
)

var shellNames = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": true, "rbash": true, "zsh": true, "ksh": true, "mksh": true, "ksh93": true, "yash": true}

// isKnownCommand reports a name that means something without the script.
func isKnownCommand(name string) bool {
	n := programName(name)
	if _, ok := usages[n]; ok {
		return true
	}
	if inspector(n) != nil {
		return true
	}
	if _, ok := networkCommands[n]; ok {
		return true
	}
	return moreCommands[n] || isInterpreter(n)
}

var moreCommands = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(`cat ls pwd cd pushd popd wc stat file less more cmp comm paste join fold fmt nl rev tac strings hexdump md5sum sha1sum sha256sum
		readlink realpath df free top env git tar gtar unzip dd alias source eval exec command builtin bg fg disown suspend times caller dirs local logout
		kill pkill killall nproc arch groups users who w uptime printenv locale tty stty clear reset tput bash sh exit test node npm python make ninja cmake
		javac java rustup mypy ruff black pytest jest vitest tsx ts-node deno bun systemctl service mount umount passwd useradd reboot shutdown`) {
		m[n] = true
	}
	return m
}()

// look flags characters that make a script look like another one.
func (a *analyser) look(script string) {
	for _, r := range script {
		if r < 0x80 {
			continue
		}
		switch {
		case unicode.Is(unicode.Cf, r) || unicode.In(r, unicode.Zl, unicode.Zp) || r == 0x3164 || r == 0xffa0 || r == 0x115f || r == 0x1160:
			a.problem("the command contains an invisible character or one that changes the direction of text")
		case unicode.IsSpace(r):
			a.problem("the command contains a space that the shell does not take for one")
		case strings.ContainsRune("\u037e\uff1b\uff5c\uff06\uff04\uff08\uff09\uff1c\uff1e\uff40", r):
			a.problem("the command contains a character that looks like an operator")
		}
	}
}

// lookAtName flags a command name with letters of other scripts, which may
// look like the name of another command.
func (a *analyser) lookAtName(w word) {
	for _, r := range w.text {
		if r >= 0x80 {
			a.problem("the command name " + strconv.QuoteToASCII(clip(w.text)) + " contains characters that may look like others")
			return
		}
	}
}

func (a *analyser) problem(reason string) { a.out.Problems = addNew(a.out.Problems, reason) }

func containsCommand(list []Command, c Command) bool {
	for i := range list {
		if list[i].DynamicName == c.DynamicName && len(list[i].DynamicWords) == len(c.DynamicWords) && equalWords(list[i].Words, c.Words) {
			return true
		}
	}
	return false
}

func equalWords(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
