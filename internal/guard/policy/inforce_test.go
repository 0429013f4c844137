package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The policy follows its files, says what has changed, and is the same pointer
// while nothing has.
func TestLive(t *testing.T) {
	home, root := tempDir(t), tempDir(t)
	file, user := filepath.Join(root, WorkspaceFile), filepath.Join(home, UserFile)
	d := DefaultsRun()
	d.Root = root
	l := &Live{Home: home, Root: root, Defaults: d}
	last := l.Now()
	denied := func(name string) bool { return !l.Now().Policy.MayRead("view", name) }
	old := time.Now().Add(-time.Hour)
	for _, step := range []struct {
		name   string
		change func() error
		a, b   bool // whether the files a and b may not be read
		want   string
	}{
		{"added", func() error { return os.WriteFile(file, []byte("reads: {deny: [a]}\n"), 0o600) }, true, false, file + " was added"},
		{"as long, with its old time", func() error {
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			put(t, file, "reads: {deny: [b]}\n")
			return os.Chtimes(file, old, info.ModTime())
		}, false, true, file + " was edited"},
		{"replaced by rename", func() error {
			put(t, file+".new", "reads: {deny: [a, b]}\n")
			return os.Rename(file+".new", file)
		}, true, true, file + " was edited"},
		{"broken", func() error { return os.WriteFile(file, []byte("reads:\n  denied: [a]\n"), 0o600) }, true, true, "the policy cannot be used: " + file + ":2: "},
		{"mended", func() error { return os.WriteFile(file, []byte("reads: {deny: [a]}\n"), 0o600) }, true, false, "the policy can be used again"},
		{"a link to nothing", func() error { return os.Rename(file, file+".away") }, false, false, file + " was removed"},
		{"a link", func() error { return os.Symlink(filepath.Base(file)+".away", file) }, true, false, file + " was added"},
		{"its target", func() error { return os.WriteFile(file+".away", []byte("reads: {deny: [b]}\n"), 0o600) }, false, true, file + " was edited"},
		{"out of the workspace", func() error {
			put(t, filepath.Join(home, "x"), "{}")
			return os.Rename(filepath.Join(home, "x"), filepath.Join(root, "x"))
		}, false, true, ""},
		{"misspelt", func() error { return os.WriteFile(filepath.Join(root, ".agent-policy.yml"), nil, 0o600) }, true, true, "the policy cannot be used: "},
		{"spelt right", func() error { return os.Remove(filepath.Join(root, ".agent-policy.yml")) }, false, true, "the policy can be used again"},
		{"the user's own", func() error { return os.WriteFile(user, []byte("reads: {deny: [a]}\n"), 0o600) }, true, true, user + " was added"},
		{"trusted", func() error {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return TrustIn(home).Add(t.Context(), file, data)
		}, true, true, file + " is trusted now"},
		{"edited and trusted no more", func() error { return os.WriteFile(file+".away", []byte("{}\n"), 0o600) }, true, false, file + " was edited, and is not trusted any more"},
		{"both removed", func() error { _ = os.Remove(file); return os.Remove(user) }, false, false, user + " was removed; " + file + " was removed"},
		{"a broken record of trust", func() error {
			put(t, file, "{}")
			return os.WriteFile(filepath.Join(home, TrustFile), []byte("{"), 0o600)
		}, true, true, "the policy cannot be used: the trust record "},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		now := l.Now()
		if step.want == "" {
			if now != last {
				t.Errorf("%s: another policy: %q", step.name, now.Change)
			}
			continue
		}
		if now == last || now.SHA256 == last.SHA256 || !strings.HasPrefix(now.Change, step.want) {
			t.Errorf("%s: %q", step.name, now.Change)
		}
		if denied("a") != step.a || denied("b") != step.b || l.Now() != now {
			t.Errorf("%s: a %v, b %v", step.name, denied("a"), denied("b"))
		}
		if reason := now.Policy.Evaluate(Action{Tool: "report_intent", Kind: KindOther}); (reason.Verdict == Deny) != (now.Err != nil) || now.Err != nil && !strings.Contains(reason.Reason, now.Err.Error()) {
			t.Errorf("%s: %+v", step.name, reason)
		}
		last = now
	}
}

// A file that is being written does not count before it is whole.
func TestLiveHalfWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, root := tempDir(t), tempDir(t)
		file := filepath.Join(root, WorkspaceFile)
		put(t, file, "reads: {deny: [a]}\n")
		l := &Live{Home: home, Root: root, Defaults: DefaultsRun()}
		l.Now()
		put(t, file, "")
		go func() {
			time.Sleep(rereadAfter / 2)
			if err := os.WriteFile(file, []byte("reads: {deny: [a, b]}\n"), 0o600); err != nil {
				t.Error(err)
			}
		}()
		if now := l.Now(); now.Policy.MayRead("view", "a") || now.Policy.MayRead("view", "b") {
			t.Error("an empty file counted while it was written")
		}
	})
}

func BenchmarkLive(b *testing.B) {
	home, root := b.TempDir(), b.TempDir()
	for path, text := range map[string]string{filepath.Join(root, WorkspaceFile): "reads: {deny: [a]}\n", filepath.Join(home, UserFile): "{}\n", filepath.Join(home, TrustFile): `{"version":1}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	l := &Live{Home: home, Root: root, Defaults: DefaultsRun()}
	for l.Now(); !l.settled; l.Now() {
	}
	for b.Loop() {
		l.Now()
	}
}
