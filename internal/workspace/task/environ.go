package task

import (
	"slices"
	"strings"
)

// PlainEnviron leaves programs what they need of an environment. They get no
// token: they have no business with anybody who asks for one.
func PlainEnviron(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
		for _, word := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "CREDENTIAL", "PRIVATE_KEY", "ACCESS_KEY"} {
			if strings.Contains(name, word) {
				return true
			}
		}
		// A make that started the bridge is no parent of a make that it runs.
		return strings.HasPrefix(name, "COPILOT_") || strings.HasPrefix(name, "OPENCLAW_") || name == "MAKEFLAGS" || name == "MAKELEVEL" || name == "MFLAGS"
	})
}
