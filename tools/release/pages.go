package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/cli"
)

// pages writes the completions and the man pages into dir. What they say is what
// the program prints, so the man pages keep the layout of --help. (Those that
// cobra makes take help for Markdown, and break the lines anew.)
func pages(dir, date string) error {
	day, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	files := map[string]string{}
	for shell, name := range map[string]string{"bash": "copilot-bridge.bash", "zsh": "_copilot-bridge", "fish": "copilot-bridge.fish", "powershell": "copilot-bridge.ps1"} {
		if files[filepath.Join("completions", name)], err = printed("completion", shell); err != nil {
			return err
		}
	}
	if err := manPages(files, day.UTC().Format(time.DateOnly), nil, "GitHub Copilot behind the protocols that your tools speak", nil); err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// printed is what the program prints.
func printed(args ...string) (string, error) {
	var out, errs bytes.Buffer
	env := cli.Env{Args: append([]string{"copilot-bridge"}, args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	if code := cli.Main(env); code != 0 {
		return "", fmt.Errorf("copilot-bridge %s: exit code %d: %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String(), nil
}

var (
	subcommand = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +(\S.*)$`)
	heading    = regexp.MustCompile(`^[A-Z][A-Za-z ]*:$`)
)

// manPages adds the page of a command and those of its subcommands.
func manPages(files map[string]string, date string, words []string, short string, siblings []string) error {
	help, err := printed(append(words, "--help")...)
	if err != nil {
		return err
	}
	name := strings.Join(append([]string{"copilot-bridge"}, words...), "-")
	var below [][]string
	if _, list, ok := strings.Cut(help, "\nAvailable Commands:\n"); ok {
		list, _, _ = strings.Cut(list, "\n\n")
		below = subcommand.FindAllStringSubmatch(list, -1)
	}
	see := siblings
	for _, sub := range below {
		see = append(see, name+"-"+sub[1])
	}
	files[filepath.Join("man", name+".1")] = manPage(name, short, date, help, see)
	for _, sub := range below {
		if sub[1] == "help" {
			continue
		}
		if err := manPages(files, date, append(words[:len(words):len(words)], sub[1]), sub[2], []string{name}); err != nil {
			return err
		}
	}
	return nil
}

func manPage(name, short, date, help string, see []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s \"Copilot Bridge\" \"User Commands\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n", roff(strings.ToUpper(name)), date, roff(name), roff(short))
	for line := range strings.Lines(strings.TrimRight(help, "\n")) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "Use \"") {
			continue // how to ask for more help
		}
		if heading.MatchString(line) {
			fmt.Fprintf(&b, ".fi\n.SH %s\n.nf\n", strings.ToUpper(strings.TrimSuffix(line, ":")))
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	b.WriteString(".fi\n")
	if len(see) > 0 {
		b.WriteString(".SH SEE ALSO\n" + roff(strings.Join(see, "(1), ")) + "(1)\n")
	}
	return b.String()
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`)

// roff is text as it is shown.
func roff(s string) string {
	s = roffEscapes.Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
