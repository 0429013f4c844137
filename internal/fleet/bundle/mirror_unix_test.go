//go:build unix

package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// childFile makes the test's program a worker that receives what a file says.
const childFile = "BUNDLE_TEST_CHILD"

type childOrder struct {
	Root, Scratch, Repo, File string
	Environ                   []string
	Bundle                    fleet.Bundle
	Expect                    Expect
}

// receiveUntilKilled is the child: it ends when it has received the bundle.
func receiveUntilKilled(file string) {
	err := func() error {
		var o childOrder
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &o)
		}
		if err != nil {
			return err
		}
		all := NewMirrors(MirrorsOptions{Root: o.Root, Scratch: o.Scratch, Environ: o.Environ})
		m, err := all.Open(context.Background(), o.Repo, o.Expect.Commit)
		if err != nil {
			return err
		}
		f, err := os.Open(o.File)
		if err != nil {
			return err
		}
		return errors.Join(m.Receive(context.Background(), f, o.Bundle, o.Expect), f.Close(), all.Close())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Whenever a worker is killed, its mirror can be used.
func TestKilled(t *testing.T) {
	w := newWorld(t, 200)
	noise := make([]byte, 8<<20)
	chacha := rand.NewChaCha8([32]byte{1})
	_, _ = chacha.Read(noise) // never fails
	w.write("repo", "noise", string(noise))
	second := w.commit("repo", "second")
	id := w.repoID()
	file := w.at("bundle")
	b, err := Make(t.Context(), w.repo, file, "claim", second, nil)
	if err != nil {
		t.Fatal(err)
	}
	order := childOrder{Root: w.at("mirrors"), Scratch: w.at("scratch-child"), Repo: id, File: file, Environ: w.env, Bundle: b, Expect: Expect{Name: "claim", Commit: second}}
	data, err := json.Marshal(order)
	if err == nil {
		err = os.WriteFile(w.at("order"), data, 0o600)
	}
	exe, exeErr := os.Executable()
	if err := errors.Join(err, exeErr); err != nil {
		t.Fatal(err)
	}
	var took time.Duration
	for round := range 5 {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env, cmd.Stderr = append(os.Environ(), childFile+"="+w.at("order")), os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if round > 0 { // the first tells how long it takes
			timer := time.AfterFunc(took*time.Duration(round)/5, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
		err := cmd.Wait()
		if round == 0 && err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			took = time.Since(began)
		}
		m := w.openMirror(id)
		if left, _ := filepath.Glob(w.at("mirrors/" + id + ".git/objects/tmp_*")); len(left) > 0 {
			t.Error(left)
		}
		if have := w.mirrors.Have(id); len(have) == 0 && round == 0 {
			t.Error("nothing was received")
		}
		f, err := os.Open(file)
		if err == nil {
			err = errors.Join(m.Receive(t.Context(), f, b, order.Expect), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		w.git("mirrors/"+id+".git", "fsck", "--full", "--strict", "--no-dangling")
		m.Close()
		if removed, err := w.mirrors.prune(id); !removed || err != nil { // the next begins anew
			t.Fatal(removed, err)
		}
	}
}

// Several tasks begin in one mirror at the same time, in two processes.
func TestConcurrentReceives(t *testing.T) {
	w := newWorld(t, 0)
	id := w.repoID()
	other := NewMirrors(MirrorsOptions{Root: w.at("mirrors"), Scratch: w.at("scratch-other"), Environ: w.env})
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	type sent struct {
		commit string
		data   []byte
		b      fleet.Bundle
	}
	var all []sent
	var want []string
	for i := range 8 {
		s := sent{commit: w.begin}
		if i >= 2 { // and two get the same
			w.write("repo", "a.txt", fmt.Sprint(i))
			s.commit = w.commit("repo", "next")
			want = append(want, s.commit)
		}
		s.data, s.b = w.bundleOf(w.repo, s.commit)
		all = append(all, s)
	}
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() {
			m, err := []*Mirrors{w.mirrors, other}[i%2].Open(t.Context(), id, s.commit)
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			if err := m.Receive(t.Context(), bytes.NewReader(s.data), s.b, Expect{Name: "claim", Commit: s.commit}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	have := w.mirrors.Have(id)
	slices.Sort(have)
	want = append(want, w.begin)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Error(have, want)
	}
	w.git("mirrors/"+id+".git", "fsck", "--full", "--strict", "--no-dangling")
	w.noLeftovers()
}

// Have is bounded and begins with the newest, and so are the references.
func TestHave(t *testing.T) {
	w := newWorld(t, 0)
	m := w.openMirror(w.repoID())
	defer m.Close()
	for i := range 2*MaxHave + 10 {
		commit := fmt.Sprintf("%040d", i)
		if err := m.Keep(commit); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(i), 0)
		if err := os.Chtimes(filepath.Join(m.Repo.Common, filepath.FromSlash(refPrefix), commit), at, at); err != nil {
			t.Fatal(err)
		}
	}
	have := w.mirrors.Have(w.repoID())
	if len(have) != MaxHave || have[0] != fmt.Sprintf("%040d", 2*MaxHave+9) {
		t.Error(len(have), have[0])
	}
	if n := len(kept(m.Repo.Common)); n != 2*MaxHave {
		t.Error(n)
	}
	for _, bad := range []string{"../../x", "--all", ""} {
		if err := m.Keep(bad); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Error(err)
		}
		if _, err := w.mirrors.Open(t.Context(), bad, w.begin); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Error(err)
		}
		if got := w.mirrors.Have(bad); got != nil {
			t.Error(got)
		}
	}
}

// A damaged mirror is noticed when it is needed. It is made anew when nobody uses
// it, and offers nothing until then.
func TestDamaged(t *testing.T) {
	w := newWorld(t, 0)
	ctx, id := t.Context(), w.repoID()
	data, b := w.bundleOf(w.repo, w.begin)
	expect := Expect{Name: "claim", Commit: w.begin}
	whole := func(m *Mirror) error { return m.Receive(ctx, bytes.NewReader(data), b, expect) }
	m := w.openMirror(id)
	if err := whole(m); err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join(m.Repo.Common, "objects")
	if err := errors.Join(os.RemoveAll(objects), os.Mkdir(objects, 0o700)); err != nil {
		t.Fatal(err)
	}
	w.write("repo", "a.txt", "more\n")
	second := w.commit("repo", "second")
	thin, thinB := w.bundleOf(w.repo, second, w.mirrors.Have(id)...)
	err := m.Receive(ctx, bytes.NewReader(thin), thinB, Expect{Name: "claim", Commit: second})
	if bridge.CodeOf(err) != bridge.CodeDenied {
		t.Error(err)
	}
	if have := w.mirrors.Have(id); have != nil {
		t.Error(have)
	}
	if _, err := w.mirrors.Open(ctx, id, w.begin); bridge.CodeOf(err) != bridge.CodeBusy {
		t.Error(err)
	}
	other := NewMirrors(MirrorsOptions{Root: w.at("mirrors"), Scratch: w.at("scratch-other"), Environ: w.env})
	if _, err := other.Open(ctx, id, w.begin); bridge.CodeOf(err) != bridge.CodeBusy {
		t.Error(err)
	}
	m.Close()
	m = w.openMirror(id)
	if err := whole(m); err != nil {
		t.Error(err)
	}
	w.git("mirrors/"+id+".git", "fsck", "--full", "--strict")
	// One that does not have what the coordinator thinks it has is damaged too.
	if err := m.Receive(ctx, nil, fleet.Bundle{}, Expect{Name: "claim", Commit: second}); bridge.CodeOf(err) != bridge.CodeDenied {
		t.Error(err)
	}
	m.Close()
	// So is one in which git's own files are missing.
	m = w.openMirror(id)
	m.Close()
	if err := errors.Join(w.mirrors.Close(), os.Remove(filepath.Join(m.Repo.Common, "HEAD"))); err != nil {
		t.Fatal(err)
	}
	if _, err := w.mirrors.Open(ctx, id, w.begin); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Error(err)
	}
	w.openMirror(id).Close()
}

// Mirrors that are not used go, and those of a worker that is full, the longest
// unused first. One in use stays.
func TestPrune(t *testing.T) {
	w := newWorld(t, 0)
	const mb = 1 << 20
	ids := make([]string, 5)
	for i := range ids {
		ids[i] = strings.Repeat(fmt.Sprint(i), 32)
		m := w.openMirror(ids[i])
		if err := os.WriteFile(filepath.Join(m.Repo.Common, "size"), make([]byte, mb), 0o600); err != nil {
			t.Fatal(err)
		}
		if i != 0 {
			m.Close()
		}
		at := time.Now().Add(-time.Duration(10-i) * time.Hour)
		if err := os.Chtimes(w.at("mirrors/"+ids[i]+".lock"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (which string) {
		for i, id := range ids {
			if _, err := os.Stat(w.at("mirrors/" + id + ".git")); err == nil {
				which += fmt.Sprint(i)
			}
		}
		return which
	}
	for _, step := range []struct {
		unused time.Duration
		most   int64
		want   string
	}{{24 * time.Hour, 100 * mb, "01234"}, {9*time.Hour - time.Minute, 100 * mb, "0234"}, {24 * time.Hour, 3*mb + mb/2, "034"}, {0, 0, "0"}} {
		if err := w.mirrors.Prune(step.unused, step.most); err != nil {
			t.Error(err)
		}
		if got := left(); got != step.want {
			t.Errorf("%+v: %s is left", step, got)
		}
	}
	w.openMirror(ids[1]).Close()
}

// What a mirror takes in springs nothing.
func TestMirrorRunsNothing(t *testing.T) {
	w := newWorld(t, 0)
	w.write("repo", ".gitattributes", "*.txt filter=evil diff=evil\n")
	w.begin = w.commit("repo", "attributes")
	id := w.repoID()
	m := w.openMirror(id)
	defer m.Close()
	w.traps("mirrors/" + id + ".git")
	data, b := w.bundleOf(w.repo, w.begin)
	if err := m.Receive(t.Context(), bytes.NewReader(data), b, Expect{Name: "claim", Commit: w.begin}); err != nil {
		t.Error(err)
	}
	w.work(m, "new.txt", "new\n")
	w.sprung()
	if err := m.Receive(t.Context(), bytes.NewReader(data), b, Expect{Name: "claim", Commit: w.begin, Parent: w.begin}); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Error(err)
	}
}
