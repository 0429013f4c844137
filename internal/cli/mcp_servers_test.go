package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/mcpimport"
)

func TestMCPAddListRemove(t *testing.T) {
	w := newWorld(t)
	if code := w.run("mcp", "list"); code != 0 || w.out.String() != "There are no MCP servers yet. Add one with `copilot-bridge mcp add`, or those of other programs with `copilot-bridge mcp import`.\n" {
		t.Errorf("exit %d, %s", code, w.out)
	}
	if code := w.run("mcp", "add", "files", "-e", "FILES_TOKEN", "-e", "MODE=ro", "--", "nonesuch", "-y", "my-server"); code != 0 ||
		w.err.String() != "✓ added files to ~/.copilot-bridge/config.yaml\n! files is left out of sessions until FILES_TOKEN is set in the environment\n! nonesuch was not found; install it, or put its directory on PATH\n" {
		t.Errorf("exit %d, %s", code, w.err)
	}
	if code := w.run("mcp", "add", "docs", "https://example.com/mcp", "--header", "Authorization: Bearer ${DOCS_TOKEN}"); code != 0 {
		t.Errorf("exit %d, %s", code, w.err)
	}
	want := "mcp_servers:\n  files:\n    command: \"nonesuch\"\n    args: [\"-y\",\"my-server\"]\n    env: {\"FILES_TOKEN\":\"${FILES_TOKEN}\",\"MODE\":\"ro\"}\n" +
		"  docs:\n    url: \"https://example.com/mcp\"\n    headers: {\"Authorization\":\"Bearer ${DOCS_TOKEN}\"}\n"
	if got := w.config(t); got != want {
		t.Errorf("got %s", got)
	}
	list := &buffer{}
	w.Stdout = list
	w.Environ = append(w.Environ, "DOCS_TOKEN=a-token-of-the-docs")
	if code := w.run("mcp", "list"); code != 0 || list.String() != ""+
		"NAME   COMMAND OR URL           VARIABLES AND HEADERS\n"+
		"docs   https://example.com/mcp  Authorization=Bearer ${DOCS_TOKEN}\n"+
		"files  nonesuch -y my-server    FILES_TOKEN=${FILES_TOKEN} MODE=•••••• (not set: FILES_TOKEN)\n" {
		t.Errorf("exit %d\n%s", code, list)
	}
	if code := w.run("mcp", "list", "--json"); code != 0 || strings.Contains(list.String(), "a-token") || !strings.Contains(list.String(), `"missing":["FILES_TOKEN"]`) {
		t.Errorf("exit %d\n%s", code, list)
	}
	for _, name := range []string{"files", "docs"} {
		if code := w.run("mcp", "remove", name); code != 0 || !strings.HasSuffix(w.err.String(), "✓ removed "+name+"\n") {
			t.Errorf("exit %d, %s", code, w.err)
		}
	}
	if got := w.config(t); got != "" {
		t.Errorf("left %q", got)
	}
}

func TestMCPErrors(t *testing.T) {
	const secret = "  → put the secret into an environment variable and write '${NAME}' instead, in single quotes\n"
	for _, tt := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"add", "x"}, "copilot-bridge: `copilot-bridge mcp add` accepts a name, and a URL or a command; got 1 argument\n  → see `copilot-bridge mcp add --help`\n", 2},
		{[]string{"add", "a b", "c"}, "copilot-bridge: \"a b\" cannot be added: a server's name has letters, digits, - and _ only\n  → see `copilot-bridge mcp add --help`\n", 2},
		{[]string{"add", "x", "https://h", "y"}, "copilot-bridge: a URL takes no arguments; got 1 argument\n  → see `copilot-bridge mcp add --help`\n", 2},
		{[]string{"add", "x", "https://h", "-e", "A=b"}, "copilot-bridge: \"x\" cannot be added: args, env and cwd are for a command, not for a url\n  → see `copilot-bridge mcp add --help`\n", 2},
		{[]string{"add", "x", "c", "-H", "A: b"}, "copilot-bridge: \"x\" cannot be added: headers are for a url, not for a command\n  → see `copilot-bridge mcp add --help`\n", 2},
		{[]string{"add", "x", "https://h", "-H", "A"}, "copilot-bridge: a header is given as --header 'NAME: VALUE'\n  → see `copilot-bridge mcp add --help`\n", 2},
		{[]string{"add", "x", "-e", "API_KEY=sk-aZ9xQ2mK7pL4wT8v", "c"}, "copilot-bridge: API_KEY holds a secret: others can see the arguments of a command, and the shell keeps them\n" + secret, 2},
		{[]string{"add", "x", "https://h", "-H", "Authorization: Bearer aZ9xQ2mK7pL4wT8v"}, "copilot-bridge: Authorization holds a secret: others can see the arguments of a command, and the shell keeps them\n" + secret, 2},
		{[]string{"add", "x", "--", "c", "--api-key=sk-aZ9xQ2mK7pL4wT8v"}, "copilot-bridge: the command or URL holds a secret: others can see the arguments of a command, and the shell keeps them\n" + secret, 2},
		{[]string{"add", "there", "c"}, "copilot-bridge: there is an MCP server there already\n  → remove it first with `copilot-bridge mcp remove there`\n", 2},
		{[]string{"remove", "their"}, "copilot-bridge: there is no MCP server \"their\"\n  → did you mean there?\n", 1},
		{[]string{"remove", "zzzzzzzzz"}, "copilot-bridge: there is no MCP server \"zzzzzzzzz\"\n  → see `copilot-bridge mcp list`\n", 1},
		{[]string{"import"}, "copilot-bridge: FILE: is not valid JSON\n  → correct or move that file, and try again\n", 2},
	} {
		w := newWorld(t)
		const before = "mcp_servers: # mine\n  there: {command: x}\n"
		write(t, w.file(), before)
		write(t, filepath.Join(w.home, ".claude.json"), "{")
		code := w.run(append([]string{"mcp"}, tt.args...)...)
		if got := strings.ReplaceAll(w.err.String(), filepath.Join(w.home, ".claude.json"), "FILE"); code != tt.code || got != tt.want {
			t.Errorf("%q: exit %d\n got %q\nwant %q", tt.args, code, got, tt.want)
		}
		if w.config(t) != before {
			t.Errorf("%q: the file is %q", tt.args, w.config(t))
		}
	}
	w := newWorld(t)
	file := filepath.Join(w.home, ".claude.json")
	write(t, file, `{"mcpServers":5}`)
	if code := w.run("mcp", "import"); code != 2 || w.err.String() != "copilot-bridge: "+file+": has no list of MCP servers as its program writes it\n  → correct or move that file, and try again\n" {
		t.Errorf("exit %d, %s", code, w.err)
	}
	w = newWorld(t)
	w.Environ = append(w.Environ, `COPILOT_BRIDGE_MCP_SERVERS={"x":{"command":"c"}}`)
	if code := w.run("mcp", "remove", "x"); code != 2 || w.err.String() != "copilot-bridge: x comes from COPILOT_BRIDGE_MCP_SERVERS, not from config.yaml\n  → change it there\n" {
		t.Errorf("exit %d, %s", code, w.err)
	}
}

func TestMCPImport(t *testing.T) {
	w := newWorld(t)
	if code := w.run("mcp", "import"); code != 0 || !strings.HasPrefix(w.out.String(), "No MCP servers were found. These files were looked for: ~/.claude.json, ") {
		t.Errorf("exit %d, %s", code, w.out)
	}
	write(t, w.file(), "mcp_servers:\n  mine:\n    command: sh\n")
	write(t, filepath.Join(w.home, ".claude.json"), `{"numStartups": 3, "mcpServers": {"mine": {"command": "other"}, "files": {"type": "stdio", "command": "sh", "args": ["-c", "${SCRIPT:-true}"], "env": {"GITHUB_TOKEN": "sk-aZ9xQ2mK7pL4wT8v", "KEPT_SECRET": "aZ9xQ2mK7pL4wT8v"}},
		"old": {"type": "sse", "url": "https://example.com/sse"}}, "projects": {"`+w.Dir+`": {"mcpServers": {"here": {"command": "sh"}}}, "/elsewhere": {"mcpServers": {"not": {"command": "x"}}}}}`)
	code := mcpimport.Place{Home: w.home, Env: w.get}.Files()[2][1]
	write(t, code, `{ // servers
		"inputs": [{"id": "gh-key", "type": "promptString"}], "servers": {"git hub": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${input:gh-key}"}},
		"bound": {"command": "sh", "args": ["${workspaceFolder}/x"]}, "files": {"command": "cat"}, }, }`)
	write(t, filepath.Join(w.home, ".cursor", "mcp.json"), `{"mcpServers": {"cur": {"command": "sh", "env": {"A": "${env:HOME}", "PORT": 80}}, "off": {"command": "sh", "disabled": true}}}`)
	w.Environ = append(w.Environ, "GITHUB_TOKEN=sk-aZ9xQ2mK7pL4wT8v", "HOME="+w.home)
	want := `Claude Code, ~/.claude.json:
  + files: sh -c ${SCRIPT:-true}  GITHUB_TOKEN=${GITHUB_TOKEN} KEPT_SECRET=••••••
  + here: sh
  mine: you have a server of that name; it stays
  - old cannot be added: it speaks the older SSE transport; if it has an address for streamable HTTP too, add that
VS Code, CODE:
  files: the one above is taken
  + git-hub: https://example.com/mcp  Authorization=Bearer ${GH_KEY}
  - bound cannot be added: it uses ${workspaceFolder}, which only its own program knows
Cursor, ~/.cursor/mcp.json:
  + cur: sh  A=${HOME} PORT=••••••
  - off cannot be added: it is switched off there
! the secret KEPT_SECRET of files is stored as it is, in a file that only you can read
! git-hub needs GH_KEY in the environment, which VS Code asks for
`
	want = strings.Replace(want, "CODE", strings.Replace(code, w.home, "~", 1), 1)
	before := w.config(t)
	if code := w.run("mcp", "import"); code != 2 || w.err.String() != want+"copilot-bridge: mcp import needs --yes where nobody can be asked\n  → see `copilot-bridge mcp import --help`\n" {
		t.Errorf("exit %d\n%s", code, w.err)
	}
	if w.config(t) != before {
		t.Errorf("changed: %s", w.config(t))
	}
	w.err, w.Stdin = &buffer{}, strings.NewReader("y\n")
	w.Stderr = w.err
	w.terminals(w.Stdin, w.Stderr)
	if code := w.run("mcp", "import"); code != 0 || !strings.Contains(w.err.String(), "Add 4 servers? [y/N] ") || !strings.Contains(w.err.String(), "✓ added git-hub to ~/.copilot-bridge/config.yaml") {
		t.Errorf("exit %d\n%s", code, w.err)
	}
	if got, want := w.config(t), before+`  cur:
    command: "sh"
    env: {"A":"${HOME}","PORT":"80"}
  files:
    command: "sh"
    args: ["-c","${SCRIPT:-true}"]
    env: {"GITHUB_TOKEN":"${GITHUB_TOKEN}","KEPT_SECRET":"aZ9xQ2mK7pL4wT8v"}
  git-hub:
    url: "https://example.com/mcp"
    headers: {"Authorization":"Bearer ${GH_KEY}"}
  here:
    command: "sh"
`; got != want {
		t.Errorf("got %s", got)
	}
	w.out = &buffer{}
	w.Stdout = w.out
	if code := w.run("mcp", "import"); code != 0 || w.out.String() != "There is nothing to add.\n" {
		t.Errorf("exit %d, %s", code, w.out)
	}
}
