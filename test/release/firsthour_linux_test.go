package release

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var record = flag.Bool("record", false, "write docs/images/first-hour.svg")

// claude is where the tests of the clients have installed Claude Code.
func claude(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "copilot-bridge-test", "clients-agents-*", "node_modules", "@anthropic-ai", "claude-code-linux-x64"))
	if err != nil || len(found) == 0 {
		t.Fatal("Claude Code is not installed: `make test` installs it", err)
	}
	return found[len(found)-1]
}

// TestFirstHour plays a new user's first hour in a terminal, in a root that has
// nothing but the installed package: install, a coding agent, a conversation, a
// task with an approval, a large task, and removal. Run it with -record to render
// what is seen into the documentation.
func TestFirstHour(t *testing.T) {
	need(t)
	x := open(t, only(t, "*_linux_amd64.deb"), claude(t))
	x.command("apt-get install -qq /media/copilot-bridge.deb", `Setting up copilot-bridge`, time.Minute)
	x.command("copilot-bridge version", `copilot-bridge `, time.Minute)
	x.command("mkdir -p app && cd app && git init -q -b main", "", time.Minute)

	x.command("copilot-bridge launch claude -p 'create hello.txt saying hi' --permission-mode acceptEdits", `I created hello\.txt`, 5*time.Minute)
	x.command("cat hello.txt", `(?m)^hi$`, time.Minute)

	x.begin("copilot-bridge")
	x.wait(`(?m)^> ?$`, time.Minute)
	x.typed("list the files", "Enter")
	x.wait(`hello\.txt`, time.Minute)
	x.typed("/usage", "Enter")
	x.wait(`tokens`, time.Minute)
	x.typed("/quit", "Enter")
	x.prompt(time.Minute)

	x.begin("copilot-bridge run \"run touch made.txt\"")
	x.wait(`\[d\]eny`, time.Minute)
	x.typed("o", "Enter")
	x.prompt(time.Minute)
	x.command("ls", `made\.txt`, time.Minute)

	x.command("git add -A && git -c user.name=me -c user.email=me@localhost commit -qm first", "", time.Minute)
	x.command("copilot-bridge orchestrate create a.txt saying a and create b.txt saying b", `done`, 3*time.Minute)
	x.command("ls", `a\.txt\s+b\.txt`, time.Minute)

	x.begin("copilot-bridge uninstall --all")
	x.wait(`\[y/N\]|\[y\]es`, time.Minute)
	x.typed("y", "Enter")
	x.prompt(time.Minute)
	x.command("apt-get remove -qq copilot-bridge", `Removing copilot-bridge`, time.Minute)
	if home := x.command("ls -A ~", "", time.Minute); strings.Contains(home, "copilot") {
		t.Errorf("the home still has something of the program:\n%s", home)
	}
	x.begin("exit")
	x.ended(time.Minute)
	left(t, filepath.Join(x.dir, "upper"))

	if *record {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", "images", "first-hour.svg"), []byte(animate(x.frames)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// left looks for what the program has left outside of the user's home.
func left(t *testing.T, upper string) {
	t.Helper()
	err := filepath.WalkDir(upper, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == ".git" {
			return fs.SkipDir // an empty directory of references, which git makes
		}
		if err == nil && strings.Contains(d.Name(), "copilot") && d.Type()&fs.ModeCharDevice == 0 && !strings.HasPrefix(path, filepath.Join(upper, "var")) {
			t.Errorf("%s is left", strings.TrimPrefix(path, upper))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
