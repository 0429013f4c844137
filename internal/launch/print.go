package launch

import (
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Script is what a shell does to start the client: the same as launch, but
// the token is not in it. secret is the shell's expression for the token.
func (c Client) Script(s Setup, secret string, args []string) string {
	var b strings.Builder
	if len(s.Unset) > 0 {
		b.WriteString("unset " + strings.Join(s.Unset, " ") + "\n")
	}
	for _, v := range s.Set {
		value := program.Quote(v.Value)
		if v.Secret {
			value = secret
		}
		b.WriteString("export " + v.Name + "=" + value + "\n")
	}
	if s.File != "" {
		b.WriteString("export " + s.FileVariable + "=\"$(mktemp)\"\nprintf '%s' " + program.Quote(s.File) + " >\"$" + s.FileVariable + "\"\n")
	}
	b.WriteString(c.Name)
	for _, a := range append(s.Args, args...) {
		b.WriteString(" " + program.Quote(a))
	}
	return b.String() + "\n"
}
