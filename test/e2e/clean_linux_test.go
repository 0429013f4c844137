package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// clean --dry-run lists what can be removed, and clean removes exactly that.
// With --all it also removes data that may still be useful. It never removes
// data of a running process.
func TestClean(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	home, temp := filepath.Join(k.home, ".copilot-bridge"), t.TempDir()
	_, url := k.serve()
	k.ask(url, `{"role":"user","content":"rehearsal: text one"}`)
	alive := k.stored()
	cmd, victim := k.serve()
	k.ask(victim, `{"role":"user","content":"rehearsal: text two"}`)
	var plain []string // found without --all
	for _, id := range k.stored() {
		if !slices.Contains(alive, id) {
			plain = append(plain, filepath.Join(home, "copilot", "session-state", id))
		}
	}
	k.run("run", "--demo", "rehearsal: text kept")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // returns an error because the process was killed

	old := time.Now().Add(-100 * 24 * time.Hour)
	write := func(path string) string {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err = errors.Join(err, os.WriteFile(path, []byte(strings.Repeat("x", 1000)), 0o600), os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gone := filepath.Join(t.TempDir(), "gone")
	sum := sha256.Sum256([]byte(gone))
	cache := filepath.Join(home, "cache", hex.EncodeToString(sum[:8]))
	here := sha256.Sum256([]byte(k.dir))
	present := filepath.Join(home, "cache", hex.EncodeToString(here[:8]))
	for at, workspace := range map[string]string{cache: gone, present: k.dir} {
		write(filepath.Join(at, "go-build", "x"))
		if err := os.WriteFile(at+".workspace", []byte(workspace), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plain = append(plain, cache, filepath.Dir(write(filepath.Join(home, "worktrees", "20260101-000000-abcdef", "x"))),
		write(filepath.Join(home, "copilot", "logs", "old.log")), write(filepath.Join(temp, "copilot-bridge-input-123")))
	place := filepath.Dir(write(filepath.Join(temp, "copilot-bridge-0123456789abcdef01234567", "x")))
	unlisted := filepath.Dir(write(filepath.Join(home, "copilot", "session-state", "11111111-2222-4333-8444-555555555555", "events.jsonl")))
	kept := filepath.Dir(write(filepath.Join(home, "patches", "kept", "a1", "main.go")))
	for _, dir := range []string{place, kept} {
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	plain = append(plain, place)
	young := filepath.Join(home, "copilot", "logs", "young.log")
	if err := errors.Join(os.WriteFile(young, nil, 0o600), os.WriteFile(filepath.Join(temp, "copilot-bridge-input-456"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(temp, "somebody-else"))

	clean := func(args ...string) (names []string, bytes int64) {
		t.Helper()
		cmd := k.command(append([]string{"clean", "--json"}, args...)...)
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
		out, err := cmd.Output()
		var report struct {
			Bytes     int64
			Leftovers []struct{ Name string }
		}
		if err := errors.Join(err, json.Unmarshal(out, &report)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, l := range report.Leftovers {
			names = append(names, l.Name)
		}
		slices.Sort(names)
		return names, report.Bytes
	}
	slices.Sort(plain)
	all := slices.Sorted(slices.Values(append([]string{unlisted, kept}, plain...)))
	if got, bytes := clean("--dry-run"); !slices.Equal(got, plain) || bytes < 5000 {
		t.Errorf("found %q (%d bytes), want %q", got, bytes, plain)
	}
	if got, _ := clean("--dry-run", "--all"); !slices.Equal(got, all) {
		t.Errorf("found %q, want %q", got, all)
	}
	for _, path := range all {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("--dry-run removed it: %v", err)
		}
	}
	if got, _ := clean(); !slices.Equal(got, plain) {
		t.Errorf("removed %q, want %q", got, plain)
	}
	if got, _ := clean("--all"); len(got) != 2 {
		t.Errorf("removed %q, want %q", got, []string{unlisted, kept})
	}
	for _, path := range all {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{present, young, filepath.Join(temp, "somebody-else"), filepath.Join(temp, "copilot-bridge-input-456")} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if want := slices.Sorted(slices.Values(append(k.listed(), alive...))); !slices.Equal(k.stored(), want) {
		t.Errorf("stored are %q, want %q", k.stored(), want)
	}
	if got, bytes := clean("--all"); len(got) != 0 || bytes != 0 {
		t.Errorf("found %q again", got)
	}
	k.ask(url, `{"role":"user","content":"rehearsal: text one"},{"role":"assistant","content":"one"},{"role":"user","content":"rehearsal: text three"}`)
}
