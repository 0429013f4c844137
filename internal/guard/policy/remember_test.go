package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestRememberKeepsTheRest(t *testing.T) {
	a := Addition{"sandbox.read", "/data/x y"}
	for _, tt := range []struct{ name, text, want string }{
		{"no file", "", "sandbox:\n  read:\n    - \"/data/x y\"\n"},
		{"other groups", "# mine\nreadOnly: false # yes\n", "# mine\nreadOnly: false # yes\nsandbox:\n  read:\n    - \"/data/x y\"\n"},
		{"no line end", "readOnly: true", "readOnly: true\nsandbox:\n  read:\n    - \"/data/x y\"\n"},
		{"a list", "sandbox:\n  read: # places\n    - /a # one\n    - /b # two\n  write: [/c]\n# end\n",
			"sandbox:\n  read: # places\n    - /a # one\n    - /b # two\n    - \"/data/x y\"\n  write: [/c]\n# end\n"},
		{"a flat list", "sandbox:\n  read:\n  - /a\nreadOnly: true\n", "sandbox:\n  read:\n  - /a\n  - \"/data/x y\"\nreadOnly: true\n"},
		{"a list in brackets", "sandbox: { read: [/a, /b], write: [/c] } # é\n", "sandbox: { read: [/a, /b, \"/data/x y\"], write: [/c] } # é\n"},
		{"brackets on several lines", "sandbox:\n  read: [\n    /a,\n    /b ]\n", "sandbox:\n  read: [\n    /a,\n    /b , \"/data/x y\"]\n"},
		{"another list of the group", "sandbox:\n    # first\n    write:\n        - /c\n", "sandbox:\n    # first\n    read:\n      - \"/data/x y\"\n    write:\n        - /c\n"},
		{"a group in braces", "sandbox: {write: [/c]}\n", "sandbox: {write: [/c]}\nsandbox:\n  read:\n    - \"/data/x y\"\n"},
		{"there already", "sandbox: {read: ['/data/x y']}\n", "sandbox: {read: ['/data/x y']}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, UserFile)
			if tt.text != "" {
				if err := os.WriteFile(file, []byte(tt.text), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Remember(t.Context(), dir, a); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if err != nil || string(got) != tt.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, tt.want)
			}
			if info, err := os.Stat(file); tt.text != "" && runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o640) {
				t.Errorf("%v %v", info.Mode(), err)
			}
			if _, err := Remember(t.Context(), dir, a, Addition{"sandbox.network", "a.example:443"}, Addition{"sandbox.read", "/more"}); err != nil {
				t.Error(err)
			}
			loaded, err := LoadUser(dir)
			if err != nil || !slices.Contains(patterns(&loaded.Rules), "sandbox.network a.example:443") || !slices.Contains(patterns(&loaded.Rules), "sandbox.read /more") {
				t.Errorf("%v %v", loaded, err)
			}
		})
	}
}

// Where a rule cannot be added for certain, the file stays as it is and the
// error says what to add.
func TestRememberRefuses(t *testing.T) {
	a := Addition{"sandbox.read", "/data"}
	for name, text := range map[string]string{"braces": "{readOnly: true}\n", "an end": "readOnly: true\n...\n", "a mistake": "readOnyl: true\n", "an empty list": "sandbox: {read: []}\n"} {
		dir := t.TempDir()
		file := filepath.Join(dir, UserFile)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Remember(t.Context(), dir, a)
		var e *bridge.Error
		if !errors.As(err, &e) || !strings.Contains(e.Remedy, `sandbox.read: "/data"`) {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s: %v %q", name, err, got)
		}
	}
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "shared.yaml")
	if err := os.WriteFile(target, []byte("readOnly: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, UserFile)); err != nil {
		t.Skipf("this user may not make links, as on Windows: %v", err)
	}
	if _, err := Remember(t.Context(), dir, a); err == nil {
		t.Error("written through a link")
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "readOnly: false\n" {
		t.Errorf("%v %q", err, got)
	}
	if info, err := os.Lstat(filepath.Join(dir, UserFile)); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
}

// Nobody can add a rule by hand to a disk that is full either.
func TestRememberOnAFullDisk(t *testing.T) {
	e := bridge.AsError(unwritten("/h/policy.yaml", bridge.DiskFull("/h", errors.New("no space left on device")), []Addition{{"sandbox.read", "/data"}}))
	if e.Code != bridge.CodeUnavailable || e.Remedy != "Free some space on it, then try again." {
		t.Errorf("%v, %s", e, e.Remedy)
	}
}

func TestRememberConcurrently(t *testing.T) {
	dir := t.TempDir()
	const writers = 8
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			if _, err := Remember(t.Context(), dir, Addition{"sandbox.write", fmt.Sprintf("/w/%d", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	loaded, err := LoadUser(dir)
	if err != nil || len(loaded.Rules.Lists["sandbox.write"]) != writers {
		t.Errorf("%v %v", loaded, err)
	}
}

func TestForgetKeepsTheRest(t *testing.T) {
	a := Addition{"shell.deny", "git push"}
	for _, tt := range []struct{ name, text, want string }{
		{"in a list", "# mine\nshell:\n  deny:\n    - rm # one\n    - git push # two\n    - make # three\n", "# mine\nshell:\n  deny:\n    - rm # one\n    - make # three\n"},
		{"the only one", "shell:\n  deny:\n    - git push\nreadOnly: true # yes\n", "shell:\n  deny:\nreadOnly: true # yes\n"},
		{"in brackets", "shell: { deny: [rm, \"git push\", make] } # é\n", "shell: { deny: [rm, make] } # é\n"},
		{"the first", "shell: {deny: ['git push', git pull]}\n", "shell: {deny: [git pull]}\n"},
		{"alone in brackets", "shell:\n  deny: [git push]\n", "shell:\n  deny: []\n"},
		{"part of another", "shell:\n  deny: [git push --force, git push]\n", "shell:\n  deny: [git push --force]\n"},
		{"on another list too", "shell:\n  allow: [git push]\n  deny: [git push]\n", "shell:\n  allow: [git push]\n  deny: []\n"},
		{"not there", "shell:\n  deny: [git pull]\n", "shell:\n  deny: [git pull]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, UserFile)
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, found, err := Forget(t.Context(), dir, a)
			got, readErr := os.ReadFile(file)
			if err != nil || readErr != nil || found != (tt.text != tt.want) || string(got) != tt.want {
				t.Errorf("%v %v %v\n%s\nwant\n%s", found, err, readErr, got, tt.want)
			}
		})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, UserFile), []byte("shell:\n  deny:\n    - >-\n      git\n      push\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Forget(t.Context(), dir, a); err == nil || !strings.Contains(err.Error(), "it is written in a way in which nothing else is certain to stay as it is") {
		t.Error(err)
	}
}
