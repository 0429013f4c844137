//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A real bash without the bash-completion package completes commands, flags, values
// behind = and directories.
func TestBashCompletes(t *testing.T) {
	w := newWorld(t)
	if code := w.run("completion", "bash"); code != 0 {
		t.Fatalf("exit code %d: %s", code, w.err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	// The script asks the program by its name; the test is the program.
	program := "#!/bin/sh\nexec env COPILOT_BRIDGE_TEST_MAIN=1 '" + os.Args[0] + "' \"$@\"\n"
	for name, text := range map[string]string{script: w.out.String(), filepath.Join(dir, "copilot-bridge"): program} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, sub := range []string{"some dir", "sources"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ words, line, want string }{
		{`copilot-bridge ses`, "copilot-bridge ses", "sessions"},
		{`copilot-bridge audit ""`, "copilot-bridge audit ", "prune tail verify"},
		{`copilot-bridge serve --worksp`, "copilot-bridge serve --worksp", "--workspace"},
		{`copilot-bridge run --log-level = wa`, "copilot-bridge run --log-level=wa", "warning"},
		{`copilot-bridge run --log-level wa`, "copilot-bridge run --log-level wa", "warning"},
		{`copilot-bridge serve --workspace so`, "copilot-bridge serve --workspace so", "some dir|sources"},
	} {
		shell := exec.Command("bash", "--norc", "--noprofile", "-c", `source script
declare -F _get_comp_words_by_ref _filedir && exit 1
compopt() { :; }
COMP_TYPE=9 COMP_KEY=9 COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_WORDS=(`+tt.words+`) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_copilot-bridge
printf '%s\n' "${COMPREPLY[@]}"`)
		shell.Dir, shell.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + w.home, "LINE=" + tt.line}
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", tt.line, err, out)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			value, _, _ := strings.Cut(strings.TrimSpace(line), "  ") // behind it is the description
			got = append(got, value)
		}
		slices.Sort(got)
		sep := " "
		if strings.Contains(tt.want, "|") {
			sep = "|"
		}
		if s := strings.Join(got, sep); s != tt.want {
			t.Errorf("%s: got %q, want %q", tt.line, s, tt.want)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	w := newWorld(t)
	if code := w.run("--version"); code != 0 || w.out.String() != "copilot-bridge version "+buildVersion()+"\n" {
		t.Errorf("exit code %d: %q %s", code, w.out, w.err)
	}
}
