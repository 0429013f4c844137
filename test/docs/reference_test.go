package docs

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/cli"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

var update = flag.Bool("update", false, "write docs/reference/commands.md and docs/reference/configuration.md")

const notice = "<!-- Written by `go test ./test/docs -update`: do not edit. -->\n"

// compareReference compares a reference page with the program's output, or updates the
// page.
func compareReference(t *testing.T, name, want string) {
	t.Helper()
	file := filepath.Join(root, "docs", "reference", name)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("docs/reference/%s is out of date (%v): run `go test ./test/docs -update`", name, err)
	}
}

// help returns what a command prints with --help.
func help(t *testing.T, words ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	args := append([]string{"copilot-bridge"}, append(words, "--help")...)
	if code := cli.Main(cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, HomeDir: t.TempDir(), Dir: t.TempDir()}); code != 0 {
		t.Fatalf("%q: exit code %d\n%s", args, code, &errs)
	}
	return strings.TrimRight(out.String(), "\n")
}

var subcommand = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +\S`)

var (
	lowerWord   = regexp.MustCompile(`^[a-z]+$`)
	commandFlag = regexp.MustCompile(`(?:^|[ \[])(--[a-z][a-z-]*)`)
)

// command is a command with its --help output.
type command struct{ path, help string }

// commands lists the program's commands, each before its subcommands.
func commands(t *testing.T) []command {
	t.Helper()
	var all []command
	var walk func(words ...string)
	walk = func(words ...string) {
		text := help(t, words...)
		all = append(all, command{strings.Join(append([]string{"copilot-bridge"}, words...), " "), text})
		_, list, _ := strings.Cut(text, "\nAvailable Commands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		for _, m := range subcommand.FindAllStringSubmatch(list, -1) {
			if m[1] != "help" && (len(words) == 0 || words[0] != "completion") {
				walk(append(words[:len(words):len(words)], m[1])...)
			}
		}
	}
	walk()
	return all
}

func TestCommands(t *testing.T) {
	var b strings.Builder
	b.WriteString(notice + "# Commands\n\nEvery command with its help, as `--help` prints it.\n")
	for _, c := range commands(t) {
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", c.path, c.help)
	}
	compareReference(t, "commands.md", b.String())
}

// unknownCommand says what of a command line does not exist: the command, or a flag.
func unknownCommand(all []command, line string) string {
	var best command
	for _, c := range all {
		if strings.HasPrefix(line+" ", c.path+" ") && len(c.path) > len(best.path) {
			best = c
		}
	}
	next, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, best.path)), " ")
	if strings.Contains(best.help, "\nAvailable Commands:\n") && lowerWord.MatchString(next) {
		return "there is no such command"
	}
	if strings.HasSuffix(best.path, " launch") && lowerWord.MatchString(next) {
		return "" // the rest is the client's
	}
	for _, m := range commandFlag.FindAllStringSubmatch(line, -1) {
		if !strings.Contains(best.help, m[1]) {
			return best.path + " has no " + m[1]
		}
	}
	return ""
}

// Commands and flags in the documentation exist.
func TestShownCommandsExist(t *testing.T) {
	all := commands(t)
	shown := regexp.MustCompile("(?m)(?:^\\s*|&& |\\| |`)(?:[A-Z_]+=\\S+ )*(copilot-bridge [a-z][^`|#\n]*)")
	hidden := []string{"copilot-bridge mcp plugin"}
	for _, p := range pages(t) {
		if !p.written() {
			continue
		}
		code := strings.Join(append(fence.FindAllString(p.text, -1), code.FindAllString(p.prose(), -1)...), "\n")
		for _, found := range shown.FindAllStringSubmatch(code, -1) {
			line := found[1]
			if slices.ContainsFunc(hidden, func(h string) bool { return strings.HasPrefix(line, h) }) {
				continue
			}
			if what := unknownCommand(all, line); what != "" {
				t.Errorf("%s shows %q, and %s", p.name, line, what)
			}
		}
	}
}

func TestConfiguration(t *testing.T) {
	var b strings.Builder
	b.WriteString(notice + `# Configuration

Flags override environment variables, which override a trusted ` + "`.env`" + ` file in the working directory, which overrides
` + "`config.yaml`" + ` in the bridge's home (` + "`~/.copilot-bridge`" + `), which overrides the defaults.
` + "`copilot-bridge config show`" + ` prints every setting with its value and its source.
Keys with a dot may be written nested: ` + "`serve.port: 8788`" + ` or ` + "`serve: {port: 8788}`" + `.

| key in ` + "`config.yaml`" + ` | variable | meaning | must be | default |
| --- | --- | --- | --- | --- |
`)
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;")
	for _, k := range config.Keys() {
		name, about := "`"+k.Key+"`", k.Description
		if !k.InFile {
			name = "(environment only)"
		}
		if k.Secret {
			about += " (secret)"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", name, k.Env, cell.Replace(about), cell.Replace(k.Allowed), cell.Replace(k.Default))
	}
	compareReference(t, "configuration.md", b.String())
}
