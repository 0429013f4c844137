//go:build unix

package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func (b *bench) mirror(name, format string) (*Repository, error) {
	b.t.Helper()
	m, err := OpenMirror(b.t.Context(), Options{Dir: filepath.Join(b.root, "mirrors", name), Environ: b.env, Scratch: filepath.Join(b.root, "scratch-"+name)}, format)
	if err == nil {
		b.t.Cleanup(func() {
			if err := m.Close(); err != nil {
				b.t.Error(err)
			}
		})
	}
	return m, err
}

// carry brings a commit from the repository into a mirror.
func (b *bench) carry(r, m *Repository, commit string) error {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "bundle")
	if _, err := r.Bundle(b.t.Context(), file, "refs/x/y", commit, nil); err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range data {
		if string(data[i:i+6]) == "\n\nPACK" {
			if _, err := f.Seek(int64(i+2), 0); err != nil {
				return err
			}
			break
		}
	}
	in, err := m.NewIncoming()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.Unpack(b.t.Context(), Pack{File: f, Size: 1 << 20, Loose: true}); err != nil {
		return err
	}
	return in.Keep()
}

// An attempt works in a worktree of a mirror as it does in one of a repository.
func TestMirror(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			b := newBench(t, "--object-format="+format)
			r := b.mustOpen()
			head := b.git("rev-parse", "HEAD")
			m, err := b.mirror("m", format)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.carry(r, m, head); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(b.root, "wt")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := m.AddWorktree(ctx, dir, "copilot-bridge/run/task", head); err != nil {
				t.Fatal(err)
			}
			index := filepath.Join(b.root, "index")
			if _, _, err := m.Run(ctx, Call{Tree: dir, Index: index, Args: []string{"read-tree", "--reset", "-u", head}}); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(text) != "one\n" {
				t.Fatalf("%q %v", text, err)
			}
			if err := os.WriteFile(filepath.Join(dir, "new.txt"), []byte("new\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			tree, err := m.WriteTree(ctx, dir, index, nil)
			if err != nil {
				t.Fatal(err)
			}
			commit, err := m.Line(ctx, Call{Args: []string{"commit-tree", tree, "-m", "x", "-p", head}})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.SetRef(ctx, "refs/heads/copilot-bridge/run/task", commit); err != nil {
				t.Fatal(err)
			}
			if got, err := b.try("-C", dir, "log", "--format=%s"); err != nil || got != "x\nfirst" { // as the session sees it
				t.Errorf("%q %v", got, err)
			}
		})
	}
}

// What a session did to a mirror's settings is gone when it is opened again, and
// springs nothing before.
func TestMirrorsSettings(t *testing.T) {
	b := newBench(t)
	m, err := b.mirror("m", "sha1")
	if err != nil {
		t.Fatal(err)
	}
	head := b.git("rev-parse", "HEAD")
	if err := b.carry(b.mustOpen(), m, head); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(m.Common, "config"))
	if err != nil {
		t.Fatal(err)
	}
	b.git("-C", m.Common, "config", "core.fsmonitor", b.trap("true"))
	b.git("-C", m.Common, "config", "filter.evil.smudge", b.trap("cat"))
	b.git("-C", m.Common, "config", "include.path", "/nowhere")
	if err := os.MkdirAll(filepath.Join(m.Common, "hooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.Common, "hooks", "reference-transaction"), []byte("#!/bin/sh\n"+b.trap("true")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := m.SetRef(t.Context(), "refs/x/z", head); err != nil || b.sprung() {
		t.Error(err, "or it was run")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if m, err = b.mirror("m", "sha1"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(m.Common, "config")); err != nil || string(got) != string(want) {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
	if err := m.SetRef(t.Context(), "refs/x/y", head); err != nil || b.sprung() {
		t.Error(err, "or it was run")
	}
}

// Damage that can be seen at once is named.
func TestDamagedMirror(t *testing.T) {
	b := newBench(t)
	m, err := b.mirror("m", "sha1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(m.Common, "HEAD")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.mirror("m", "sha1"); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Error(err)
	}
}
