package policy

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// tempDir is a directory under its one true name.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, from string) {
	t.Helper()
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
}

func TestLoadWorkspace(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setUp func(t *testing.T, dir string)
		rules []string // with DIR for the workspace
		err   string
	}{
		{"none", func(*testing.T, string) {}, nil, ""},
		{"one", func(t *testing.T, dir string) { put(t, filepath.Join(dir, WorkspaceFile), "tools:\n  deny: [a]\n") },
			[]string{`tools.deny "a" (DIR/.agent-policy.yaml:2)`}, ""},
		{"empty", func(t *testing.T, dir string) { put(t, filepath.Join(dir, WorkspaceFile), "") }, []string{}, ""},
		{"only the root counts", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, "sub", WorkspaceFile), "tools: {deny: [a]}")
		}, nil, ""},
		{"link inside", func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "policy"), "readOnly: true")
			link(t, "policy", filepath.Join(dir, WorkspaceFile))
		}, []string{"readOnly true (DIR/.agent-policy.yaml:1)"}, ""},
		{"link outside", func(t *testing.T, dir string) {
			put(t, filepath.Join(filepath.Dir(dir), "outside"), "readOnly: true")
			link(t, "../outside", filepath.Join(dir, WorkspaceFile))
		}, nil, "cannot be read"},
		{"absolute link", func(t *testing.T, dir string) { link(t, "/etc/hosts", filepath.Join(dir, WorkspaceFile)) }, nil, "cannot be read"},
		{"link to nothing", func(t *testing.T, dir string) { link(t, "nothing", filepath.Join(dir, WorkspaceFile)) }, nil, "it is a link to nothing"},
		{"directory", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, WorkspaceFile), 0o700); err != nil {
				t.Fatal(err)
			}
		}, nil, "cannot be read"},
		{"bad", func(t *testing.T, dir string) { put(t, filepath.Join(dir, WorkspaceFile), "tools:\n  dney: [a]\n") }, nil,
			`DIR/.agent-policy.yaml:2: unknown key "tools.dney"; did you mean "deny"?`},
		{"not yaml", func(t *testing.T, dir string) { put(t, filepath.Join(dir, WorkspaceFile), "{") }, nil, "DIR/.agent-policy.yaml:1: this is not valid YAML"},
		{"too large", func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, WorkspaceFile), strings.Repeat("#", MaxFileSize+1))
		}, nil, "it is larger than 65536 bytes"},
		{"other ending", func(t *testing.T, dir string) { put(t, filepath.Join(dir, ".agent-policy.yml"), "readOnly: true") }, nil,
			"DIR/.agent-policy.yml would be ignored: the name of a policy file is .agent-policy.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(tempDir(t), "ws")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			tt.setUp(t, dir)
			file, err := LoadWorkspace(dir)
			if tt.err != "" {
				want := strings.ReplaceAll(tt.err, "DIR/", dir+string(filepath.Separator))
				var e *bridge.Error
				if file != nil || !errors.As(err, &e) || e.Code != bridge.CodeInvalid || !strings.Contains(err.Error(), want) || e.Remedy == "" {
					t.Errorf("%v, %v; want %q", file, err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if (file == nil) != (tt.rules == nil) {
				t.Fatalf("%+v", file)
			}
			if file == nil {
				return
			}
			for i, r := range tt.rules {
				tt.rules[i] = strings.ReplaceAll(r, "DIR/", dir+string(filepath.Separator))
			}
			if got := render(file.Rules); !slices.Equal(got, tt.rules) {
				t.Errorf("%q", got)
			}
			data, err := os.ReadFile(file.Path)
			if err != nil || !bytes.Equal(data, file.Data) {
				t.Errorf("%q, %v", data, err)
			}
			if l := file.Layer(true); !l.Trusted || !slices.Equal(render(l.Rules), tt.rules) {
				t.Errorf("%+v", l)
			}
		})
	}
	if _, err := LoadWorkspace(filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a workspace that does not exist has no policy, rather than an unknown one")
	}
}

func TestLoadUser(t *testing.T) {
	home := tempDir(t)
	if file, err := LoadUser(filepath.Join(home, "nowhere")); file != nil || err != nil {
		t.Errorf("%v, %v", file, err)
	}
	if file, err := LoadUser(home); file != nil || err != nil {
		t.Errorf("%v, %v", file, err)
	}
	elsewhere := filepath.Join(tempDir(t), "dotfiles.yaml")
	put(t, elsewhere, "readOnly: true")
	link(t, elsewhere, filepath.Join(home, UserFile))
	file, err := LoadUser(home)
	if err != nil {
		t.Fatal(err)
	}
	if got := render(file.Rules); len(got) != 1 || file.Path != filepath.Join(home, UserFile) {
		t.Errorf("%s: %q", file.Path, got)
	}
	put(t, elsewhere, "readOnly: perhaps")
	if file, err := LoadUser(home); file != nil || err == nil {
		t.Errorf("%v, %v", file, err)
	}
}
