package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTrust(t *testing.T) {
	ctx, home, ws := t.Context(), tempDir(t), tempDir(t)
	trust := Trust{Path: filepath.Join(home, "sub", TrustFile)}
	path := filepath.Join(ws, WorkspaceFile)
	put(t, path, "shell: {allow: [make]}\n")
	check := func(want bool) {
		t.Helper()
		file, err := LoadWorkspace(ws)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := trust.Trusted(file.Path, file.Data); err != nil || got != want {
			t.Errorf("trusted: %v, %v; want %v", got, err, want)
		}
	}
	check(false)
	file, err := LoadWorkspace(ws)
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.Add(ctx, file.Path, file.Data); err != nil {
		t.Fatal(err)
	}
	check(true)

	// Any other byte revokes; the same bytes again are trusted.
	put(t, path, "shell: {allow: [make]}\n\n")
	check(false)
	put(t, path, "shell: {allow: [make]}\n")
	check(true)

	// The same bytes elsewhere are not trusted.
	other := tempDir(t)
	put(t, filepath.Join(other, WorkspaceFile), "shell: {allow: [make]}\n")
	if got, err := trust.Trusted(filepath.Join(other, WorkspaceFile), file.Data); err != nil || got {
		t.Errorf("%v, %v", got, err)
	}

	// A new version replaces the old one.
	put(t, path, "shell: {allow: [ls]}\n")
	if err := trust.Add(ctx, path, []byte("shell: {allow: [ls]}\n")); err != nil {
		t.Fatal(err)
	}
	check(true)
	put(t, path, "shell: {allow: [make]}\n")
	check(false)

	list, err := trust.List()
	if err != nil || len(list) != 1 || list[0].Path != path || len(list[0].SHA256) != 64 || time.Since(list[0].Added) > time.Hour || list[0].Added.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
	info, err := os.Stat(trust.Path)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if removed, err := trust.Remove(ctx, path); err != nil || !removed {
		t.Errorf("%v, %v", removed, err)
	}
	if removed, err := trust.Remove(ctx, path); err != nil || removed {
		t.Errorf("again: %v, %v", removed, err)
	}
	if list, err := trust.List(); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// However a directory is called, the file in it is one.
func TestTrustFollowsDirectories(t *testing.T) {
	ctx, ws := t.Context(), tempDir(t)
	trust := Trust{Path: filepath.Join(tempDir(t), TrustFile)}
	alias := filepath.Join(tempDir(t), "alias")
	link(t, ws, alias)
	if err := trust.Add(ctx, filepath.Join(alias, WorkspaceFile), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if ok, err := trust.Trusted(filepath.Join(ws, ".", WorkspaceFile), []byte("x")); err != nil || !ok {
		t.Errorf("%v, %v", ok, err)
	}
	t.Chdir(ws)
	if ok, err := trust.Trusted(WorkspaceFile, []byte("x")); err != nil || !ok {
		t.Errorf("relative: %v, %v", ok, err)
	}
}

func TestRemoveWhatIsGone(t *testing.T) {
	ctx, trust := t.Context(), Trust{Path: filepath.Join(tempDir(t), TrustFile)}
	ws := filepath.Join(tempDir(t), "ws")
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(ws, WorkspaceFile)
	if err := trust.Add(ctx, path, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ws); err != nil {
		t.Fatal(err)
	}
	if err := trust.Add(ctx, path, []byte("x")); err == nil {
		t.Error("a file without a directory was trusted")
	}
	if removed, err := trust.Remove(ctx, path); err != nil || !removed {
		t.Errorf("%v, %v", removed, err)
	}
}

func TestConcurrentTrust(t *testing.T) {
	ctx, trust, ws := t.Context(), Trust{Path: filepath.Join(tempDir(t), TrustFile)}, tempDir(t)
	const writers, each = 6, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := trust.Add(ctx, filepath.Join(ws, fmt.Sprintf("%d-%d", w, i)), []byte("x")); err != nil {
					t.Error(err)
				}
				if _, err := trust.List(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if list, err := trust.List(); err != nil || len(list) != writers*each {
		t.Errorf("%d entries, %v", len(list), err)
	}
}

func TestBrokenTrustRecord(t *testing.T) {
	for name, text := range map[string]string{
		"no json": "{", "empty": "", "other version": `{"version":2,"files":{}}`, "list": "[]", "two": `{"version":1}{"version":1}`, "no version": `{"version":0}`,
	} {
		path := filepath.Join(tempDir(t), TrustFile)
		put(t, path, text)
		trust := Trust{Path: path}
		if ok, err := trust.Trusted(path, nil); ok || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		if err := trust.Add(context.Background(), path, nil); err == nil {
			t.Errorf("%s: it was written over", name)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != text {
			t.Errorf("%s: now %q, %v", name, data, err)
		}
	}
	path := filepath.Join(tempDir(t), TrustFile)
	put(t, path, `{"version":1,"files":null}`)
	if err := (Trust{Path: path}).Add(t.Context(), path, nil); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (Trust{Path: path}).Add(ended, path, []byte("y")); err == nil {
		t.Error("a context that has ended was ignored")
	}
}
