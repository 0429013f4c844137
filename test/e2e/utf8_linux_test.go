package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A variable that is not UTF-8, with which the runtime panics, does not reach
// it; the others do.
func TestVariablesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	k.env = []string{"OLDPWD=/tmp/\xff", "LATIN\xe9=1", "KEPT=d\u00e9j\u00e0"}
	if out := string(k.run("run", "--demo", "--yes", "rehearsal: tool bash {\"command\":\"echo left=$OLDPWD kept=$KEPT\",\"description\":\"look\"}")); !strings.Contains(out, "left= kept=d\u00e9j\u00e0") {
		t.Error(out)
	}
	_, url := k.serve()
	k.ask(url, `{"role":"user","content":"hello"}`)
}

// A working directory that is not UTF-8 is refused in a sentence, whoever names
// it and whatever the transport.
func TestDirectoryThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	dir := filepath.Join(k.dir, "w\xff")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	order := `{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":"` + helloTask + `","lane":"workspace_first","workspace":{"root":".","mode":"pass_through"}}}` + "\n"
	for name, args := range map[string][]string{
		"run":         {"run", "--demo", helloTask},
		"orchestrate": {"orchestrate", "--demo", helloTask},
		"serve":       {"serve", "--demo", "--port", "0"},
		"mcp":         {"mcp", "plugin", "--workspace", "."},
		"abp":         {"abp", "--demo"},
	} {
		cmd := k.command(args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(order)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), `w\xff`) || !strings.Contains(string(out), "is not UTF-8") || !strings.Contains(string(out), "rename it") {
			t.Errorf("%s: exit code %d\n%s", name, code, out)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
	if out := string(k.run("run", "--demo", "--cwd", k.dir, helloTask)); !strings.Contains(out, "created") {
		t.Error(out)
	}
}
