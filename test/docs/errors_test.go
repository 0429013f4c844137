package docs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/errorcases"
)

// The page of errors is made of the cases that test/e2e runs on the program.
func TestErrorPage(t *testing.T) {
	all, err := errorcases.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	cell := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`).Replace
	var b strings.Builder
	b.WriteString(notice + "# Errors\n\nWhat the program says when something goes wrong, what it means and what to do. Each row is a test that causes the error." +
		" `$PWD` is the current directory, `$PROVIDER` the address of a model's provider.\n\n" +
		"Exit codes: 0 done, 1 failed, 2 usage, 3 Copilot unavailable, 4 denied by policy, 5 partly done, 130 interrupted.\n")
	section := ""
	for _, c := range all {
		if c.Section != section {
			section = c.Section
			fmt.Fprintf(&b, "\n## %s\n\n| error | what it means | what to do | exit code |\n|---|---|---|---|\n", section)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d |\n", cell(c.Text()), cell(c.Means), cell(c.Remedy()), c.Exit)
	}
	compareReference(t, "errors.md", b.String())
}

// Every error says what to do.
func TestErrorsHaveRemedies(t *testing.T) {
	all, err := errorcases.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Remedy() == "" || c.Means == "" {
			t.Errorf("%s: no remedy or no meaning", c.Command)
		}
	}
}
