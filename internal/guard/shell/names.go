package shell

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

var shellNames = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": true, "rbash": true, "zsh": true, "ksh": true, "mksh": true, "ksh93": true, "yash": true}

// flagLookalikes flags characters that make a script look like another one.
func (a *analyser) flagLookalikes(script string) {
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

// flagForeignLetters flags a command name with letters of other scripts, which may
// look like the name of another command.
func (a *analyser) flagForeignLetters(w word) {
	for _, r := range w.text {
		if r >= 0x80 {
			a.problem("the command name " + strconv.QuoteToASCII(text.Clip(w.text, 200)) + " contains characters that may look like others")
			return
		}
	}
}

func (a *analyser) problem(reason string) { a.out.Problems = appendNew(a.out.Problems, reason) }
