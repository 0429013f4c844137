package copilotruntime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeSite is a site with a finished install of a few bytes.
func fakeSite(t *testing.T) site {
	t.Helper()
	s := site{product: runtimeProduct(), platform: "linux-x64", root: filepath.Join(t.TempDir(), "runtime")}
	s.product.verify = func(context.Context, string) (string, error) { return "9.9.9", nil }
	fillFake(t, s, s.dir())
	m := manifest{Package: s.packageName(), Version: s.product.version, Reports: "9.9.9"}
	if err := writeManifest(s.dir(), filepath.FromSlash(s.packageDir()), m); err != nil {
		t.Fatal(err)
	}
	return s
}

// fillFake puts what npm would unpack into dir. The program is not one that
// could be started.
func fillFake(t *testing.T, s site, dir string) {
	t.Helper()
	for _, name := range append(s.requiredPaths(), s.packageDir()+"/README.md") {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("content of "+name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInstalledIsTrustedByItsManifest(t *testing.T) {
	s := fakeSite(t)
	rt, err := s.installed()
	if err != nil {
		t.Fatal(err)
	}
	want := Runtime{
		Path:    filepath.Join(s.dir(), filepath.FromSlash(s.programPath())),
		Version: "9.9.9", Source: SourceInstalled, Dir: s.dir(), Native: true,
	}
	if rt != want {
		t.Errorf("got %+v, want %+v", rt, want)
	}
}

func TestDamagedInstallsAreNotTrusted(t *testing.T) {
	program := func(s site) string { return filepath.Join(s.dir(), filepath.FromSlash(s.programPath())) }
	readme := func(s site) string {
		return filepath.Join(s.dir(), filepath.FromSlash(s.packageDir()), "README.md")
	}
	edit := func(change func(*manifest)) func(site) error {
		return func(s site) error {
			m, err := readManifest(s.dir())
			if err != nil {
				return err
			}
			change(&m)
			data, err := json.Marshal(m)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(s.dir(), manifestName), data, 0o600)
		}
	}
	tests := []struct {
		name   string
		damage func(site) error
		want   string
	}{
		{"program cut short", func(s site) error { return os.Truncate(program(s), 3) }, "has 3 bytes instead of"},
		{"program gone", func(s site) error { return os.Remove(program(s)) }, "is missing"},
		{"program not executable", func(s site) error { return os.Chmod(program(s), 0o600) }, "is not executable"},
		{"program a link", func(s site) error {
			return errors.Join(os.Remove(program(s)), os.Symlink("/bin/true", program(s)))
		}, "is no longer a file"},
		{"other file gone", func(s site) error { return os.Remove(readme(s)) }, "is missing"},
		{"no manifest", func(s site) error { return os.Remove(filepath.Join(s.dir(), manifestName)) }, "it has no manifest"},
		{"empty manifest", func(s site) error { return os.Truncate(filepath.Join(s.dir(), manifestName), 0) }, "cannot be read"},
		{"size changed", edit(func(m *manifest) { m.Files[0].Size++ }), "bytes instead of"},
		{"other version", edit(func(m *manifest) { m.Version = "0.0.1" }), "it holds"},
		{"other platform", edit(func(m *manifest) { m.Package = "@github/copilot-sdk-darwin-arm64" }), "it holds"},
		{"program not listed", edit(func(m *manifest) {
			m.Files = slices.DeleteFunc(m.Files, func(f manifestFile) bool { return strings.HasSuffix(f.Path, "copilot-runtime") })
		}), "does not list"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := fakeSite(t)
			if err := test.damage(s); err != nil {
				t.Fatal(err)
			}
			_, err := s.installed()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if errors.Is(err, fs.ErrNotExist) {
				t.Error("a damaged install passes for a missing one")
			}
		})
	}
}

func TestDecodeManifestRefuses(t *testing.T) {
	tests := map[string]string{
		"no JSON":        `hello`,
		"trailing":       `{"format":1,"package":"p","version":"1","reports":"1","files":[{"path":"a","size":1}]} x`,
		"other format":   `{"format":2,"package":"p","version":"1","reports":"1","files":[{"path":"a","size":1}]}`,
		"no package":     `{"format":1,"version":"1","reports":"1","files":[{"path":"a","size":1}]}`,
		"no files":       `{"format":1,"package":"p","version":"1","reports":"1"}`,
		"path outside":   `{"format":1,"package":"p","version":"1","reports":"1","files":[{"path":"../a","size":1}]}`,
		"absolute path":  `{"format":1,"package":"p","version":"1","reports":"1","files":[{"path":"/etc/passwd","size":1}]}`,
		"unclean path":   `{"format":1,"package":"p","version":"1","reports":"1","files":[{"path":"a/../b","size":1}]}`,
		"negative size":  `{"format":1,"package":"p","version":"1","reports":"1","files":[{"path":"a","size":-1}]}`,
		"the same twice": `{"format":1,"package":"p","version":"1","reports":"1","files":[{"path":"a","size":1},{"path":"a","size":1}]}`,
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			if m, err := decodeManifest([]byte(data)); err == nil {
				t.Errorf("accepted as %+v", m)
			}
		})
	}
}

func FuzzDecodeManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"package":"p","version":"1","reports":"1","files":[{"path":"a/b","size":1}]}`))
	f.Add([]byte(`{"format":1,"package":"p","version":"1","reports":"1","files":[{"path":"..\\a","size":1}]}`))
	f.Add([]byte(`{"files":[{}]}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeManifest(data)
		if err != nil {
			return
		}
		for _, file := range m.Files {
			inside := filepath.Join("/install", filepath.FromSlash(file.Path))
			if !strings.HasPrefix(inside, filepath.FromSlash("/install/")) && inside != filepath.FromSlash("/install") {
				t.Fatalf("%q leads to %q", file.Path, inside)
			}
		}
		encoded, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeManifest(encoded)
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if encodedAgain, err := json.Marshal(again); err != nil || !bytes.Equal(encoded, encodedAgain) {
			t.Fatalf("%s became %s, %v", encoded, encodedAgain, err)
		}
	})
}
