//go:build unix

package bundle

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// object writes any object into the clone, however bad.
func (w *world) object(kind, content string) string {
	w.t.Helper()
	return strings.TrimSpace(w.feed("clone", content, "hash-object", "-w", "--literally", "--stdin", "-t", kind))
}

// tree is the clone's first tree with more entries, each a mode, a name and an
// object. git would not make most of them.
func (w *world) tree(entries ...[3]string) string {
	w.t.Helper()
	var b strings.Builder
	for _, e := range entries {
		id, err := hex.DecodeString(e[2])
		if err != nil {
			w.t.Fatal(err)
		}
		b.WriteString(e[0] + " " + e[1] + "\x00" + string(id))
	}
	return w.object("tree", b.String())
}

// child is a commit of a tree.
func (w *world) child(tree string, parents ...string) string {
	w.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	b.WriteString("author a <a@example.com> 1000000000 +0000\ncommitter a <a@example.com> 1000000000 +0000\n\nwork\n")
	return w.object("commit", b.String())
}

// with is a commit on the begin commit that has one more entry in its tree.
func (w *world) with(mode, name, object string) string {
	w.t.Helper()
	return w.child(w.tree([3]string{mode, name, object}), w.begin)
}

// pack packs what the commits hold and begin does not.
func (w *world) pack(commits ...string) string {
	w.t.Helper()
	return w.feed("clone", strings.Join(commits, "\n")+"\n^"+w.begin+"\n", "pack-objects", "-q", "--revs", "--thin", "--stdout")
}

func (w *world) header(commit string) string {
	return fmt.Sprintf("# v2 git bundle\n-%s first\n%s %s\n\n", w.begin, commit, Ref("claim"))
}

// forge is a bundle of a commit as it should be, but for the commit.
func (w *world) forge(commit string) []byte { return []byte(w.header(commit) + w.pack(commit)) }

// forgery is a result from a bad worker. It returns the bundle and the commit that
// it announces.
type forgery struct {
	make func(w *world) (data []byte, commit string)
	why  string // a part of the error
}

// commits are forged commits in bundles that are fine.
func ofCommit(why string, forged func(w *world) string) forgery {
	return forgery{func(w *world) ([]byte, string) { c := forged(w); return w.forge(c), c }, why}
}

// ofText are bundles whose text is changed.
func ofText(why string, change func(w *world, commit, header, pack string) string) forgery {
	return forgery{func(w *world) ([]byte, string) {
		c := w.good()
		return []byte(change(w, c, w.header(c), w.pack(c))), c
	}, why}
}

// good is a commit that would be taken.
func (w *world) good() string { return w.with("100644", "new.txt", w.object("blob", "new\n")) }

func (w *world) link(name, target string) string {
	return w.with("120000", name, w.object("blob", target))
}

func (w *world) inDir(dir, mode, name, object string) string {
	return w.with("40000", dir, w.tree([3]string{mode, name, object}))
}

var forgeries = map[string]forgery{
	"another parent": ofCommit("the parents of commit", func(w *world) string {
		return w.child(w.tree(), w.child(w.tree([3]string{"100644", "x", w.object("blob", "x")}), w.begin))
	}),
	"two parents": ofCommit("the parents of commit", func(w *world) string {
		return w.child(w.tree(), w.begin, w.child(w.tree([3]string{"100644", "x", w.object("blob", "x")}), w.begin))
	}),
	"the parent twice": ofCommit("the parents of commit", func(w *world) string { return w.child(w.tree(), w.begin, w.begin) }),
	"no parent":        ofCommit("the parents of commit", func(w *world) string { return w.child(w.tree()) }),
	"a parent that nobody has": {func(w *world) ([]byte, string) {
		// Made by hand: git does not pack it.
		raw := fmt.Sprintf("tree %s\nparent %s\nauthor a <a@example.com> 1 +0000\ncommitter a <a@example.com> 1 +0000\n\nx\n", w.git("clone", "rev-parse", "HEAD^{tree}"), strings.Repeat("1", 40))
		c := w.object("commit", raw)
		return []byte(w.header(c) + packOf(packed{1, int64(len(raw)), nil, deflated(raw)})), c
	}, "git does not take"},
	"a tree in place of a commit": {func(w *world) ([]byte, string) {
		c := w.good()
		tree := w.git("clone", "rev-parse", c+"^{tree}")
		return []byte(w.header(tree) + w.pack(c)), tree
	}, "is not among them"},
	"a tag in place of a commit": {func(w *world) ([]byte, string) {
		c := w.good()
		tag := w.object("tag", fmt.Sprintf("object %s\ntype commit\ntag x\ntagger a <a@example.com> 1 +0000\n\nx\n", c))
		return []byte(w.header(tag) + w.pack(tag)), tag
	}, "is not among them"},
	"another commit than announced": {func(w *world) ([]byte, string) {
		return w.forge(w.good()), strings.Repeat("1", 40)
	}, "is expected"},
	"not the commit in the pack": {func(w *world) ([]byte, string) {
		c := w.link("other", "a.txt")
		return []byte(w.header(c) + w.pack(w.good())), c
	}, "is not among them"},
	"one more reference": ofText("is expected", func(_ *world, c, header, pack string) string {
		return strings.TrimSuffix(header, "\n") + c + " " + Ref("other") + "\n\n" + pack
	}),
	"a branch":                  ofText("is expected", renamed("refs/heads/main")),
	"HEAD":                      ofText("is expected", renamed("HEAD")),
	"another claim":             ofText("is expected", renamed(Ref("other"))),
	"a name with ..":            ofText("is expected", renamed(refPrefix+"../heads/main")),
	"a name with .. at the end": ofText("is expected", renamed(Ref("claim")+"/../../heads/main")),
	"no reference": ofText("is expected", func(w *world, _, _, pack string) string {
		return "# v2 git bundle\n-" + w.begin + " first\n\n" + pack
	}),
	"something else needed": ofText("the bundle builds on commit", func(_ *world, _, header, pack string) string {
		return strings.Replace(header, "-", "-"+strings.Repeat("1", 40)+" x\n-", 1) + pack
	}),
	"an odd need": ofText("the bundle needs", func(_ *world, _, header, pack string) string {
		return strings.Replace(header, "-", "---all x\n-", 1) + pack
	}),
	"a filter": ofText("where", func(_ *world, _, header, pack string) string {
		return strings.Replace(header, "# v2 git bundle\n", "# v3 git bundle\n@filter=blob:none\n", 1) + pack
	}),
	"version 3": ofText("where", func(_ *world, _, header, pack string) string {
		return strings.Replace(header, "# v2 git bundle\n", "# v3 git bundle\n@object-format=sha1\n", 1) + pack
	}),
	"an unknown capability": ofText("where", func(_ *world, _, header, pack string) string {
		return strings.Replace(header, "# v2 git bundle\n", "# v3 git bundle\n@run=x\n", 1) + pack
	}),
	"a header without an end": ofText("does not end", func(w *world, _, _, _ string) string {
		return "# v2 git bundle\n" + strings.Repeat("-"+w.begin+" first\n", 30_000)
	}),
	"an endless line": ofText("does not end", func(_ *world, _, _, pack string) string {
		return "# v2 git bundle\n-" + strings.Repeat("x", 1<<20) + pack
	}),
	"no pack":             ofText("cut off", func(_ *world, _, header, _ string) string { return header }),
	"an empty pack":       ofText("is not among them", func(_ *world, _, header, _ string) string { return header + packOf() }),
	"a cut pack":          ofText("cut off", func(_ *world, _, header, pack string) string { return header + pack[:len(pack)-30] }),
	"more after the pack": ofText("something follows", func(_ *world, _, header, pack string) string { return header + pack + "more" }),
	"a flipped bit in the hash": ofText("git does not take", func(_ *world, _, header, pack string) string {
		return header + pack[:len(pack)-1] + string([]byte{pack[len(pack)-1] ^ 1})
	}),
	"a flipped bit in the middle": ofText("", func(_ *world, _, header, pack string) string {
		i := len(pack) / 2
		return header + pack[:i] + string([]byte{pack[i] ^ 1}) + pack[i+1:]
	}),
	"a missing file": {func(w *world) ([]byte, string) {
		c := w.good()
		list := w.git("clone", "rev-list", "--objects", "--no-object-names", "--filter=blob:none", c, "^"+w.begin)
		return []byte(w.header(c) + w.feed("clone", list+"\n", "pack-objects", "-q", "--stdout")), c
	}, "git does not take"},

	".git":               ofCommit("hasDotgit", func(w *world) string { return w.inDir(".git", "100644", "config", w.object("blob", "[core]\n")) }),
	".GIT":               ofCommit("hasDotgit", func(w *world) string { return w.inDir(".GIT", "100644", "config", w.object("blob", "[core]\n")) }),
	"git~1":              ofCommit("hasDotgit", func(w *world) string { return w.inDir("git~1", "100644", "config", w.object("blob", "[core]\n")) }),
	".git as HFS+ reads": ofCommit("hasDotgit", func(w *world) string { return w.inDir(".g\u200cit", "100644", "config", w.object("blob", "x")) }),
	".git deep inside":   ofCommit("hasDotgit", func(w *world) string { return w.inDir("deep", "100644", ".git", w.object("blob", "gitdir: /x\n")) }),
	"a link .git":        ofCommit("hasDotgit", func(w *world) string { return w.link(".git", "dir") }),
	"..":                 ofCommit("hasDotdot", func(w *world) string { return w.inDir("..", "100644", "x", w.object("blob", "x")) }),
	"a slash in a name":  ofCommit("fullPathname", func(w *world) string { return w.with("100644", "../x", w.object("blob", "x")) }),
	"a message that terminals obey": ofCommit("terminals obey", func(w *world) string {
		w.git("clone", "commit", "-q", "--allow-empty", "-m", "done \x1b]0;title\x07\x1b[2J")
		return w.git("clone", "rev-parse", "HEAD")
	}),
	"an author that terminals obey": ofCommit("terminals obey", func(w *world) string {
		w.git("clone", "commit", "-q", "--allow-empty", "-m", "done", "--author", "a\x1b[31m <a@example.com>")
		return w.git("clone", "rev-parse", "HEAD")
	}),
	"a policy": ofCommit("for people alone", func(w *world) string {
		return w.with("100644", ".agent-policy.yaml", w.object("blob", "shell: {allow: ['*']}\n"))
	}),
	"a policy inside":    ofCommit("for people alone", func(w *world) string { return w.inDir("deep", "100644", ".Agent-Policy.YML", w.object("blob", "x")) }),
	"a policy as a link": ofCommit("for people alone", func(w *world) string { return w.link(".agent-policy.yaml", "a.txt") }),
	"a link out of it":   ofCommit("is a link to", func(w *world) string { return w.link("out", "../../etc/passwd") }),
	"an absolute link":   ofCommit("is a link to", func(w *world) string { return w.link("out", "/etc/passwd") }),
	"a link up and down": ofCommit("is a link to", func(w *world) string { return w.inDir("d", "120000", "out", w.object("blob", "../x/../../y")) }),
	"a link to .git":     ofCommit("is a link to", func(w *world) string { return w.link("out", ".git/hooks") }),
	"a submodule":        ofCommit("is a submodule", func(w *world) string { return w.with("160000", "sub", w.begin) }),
	"a huge link":        ofCommit("too much", func(w *world) string { return w.link("out", "/"+strings.Repeat("x", 1<<20)) }),
	"Git LFS": ofCommit("Git LFS", func(w *world) string {
		return w.with("100644", ".gitattributes", w.object("blob", "*.bin filter=lfs\n"))
	}),
	"an evil submodule URL": ofCommit("gitmodulesUrl", func(w *world) string {
		return w.with("100644", ".gitmodules", w.object("blob", "[submodule \"a\"]\n\tpath = a\n\turl = --upload-pack=touch x\n"))
	}),
	"an evil submodule name": ofCommit("gitmodulesName", func(w *world) string {
		return w.with("100644", ".gitmodules", w.object("blob", "[submodule \"../../x\"]\n\tpath = a\n\turl = https://example.com/a\n"))
	}),
	"a submodule that runs something": ofCommit("gitmodulesUpdate", func(w *world) string {
		return w.with("100644", ".gitmodules", w.object("blob", "[submodule \"a\"]\n\tpath = a\n\tupdate = !touch x\n\turl = https://example.com/a\n"))
	}),
	"a link .gitmodules": ofCommit("gitmodulesSymlink", func(w *world) string { return w.link(".gitmodules", "a.txt") }),
	"a bad mode":         ofCommit("badFilemode", func(w *world) string { return w.with("100666", "new.txt", w.object("blob", "x")) }),
	"a mode of no kind":  ofCommit("git does not take", func(w *world) string { return w.with("170000", "new.txt", w.object("blob", "x")) }),
	"a file as a directory": {func(w *world) ([]byte, string) {
		blob := w.object("blob", "x")
		tree := w.tree([3]string{"40000", "d", blob})
		c := w.child(tree, w.begin)
		return []byte(w.header(c) + w.feed("clone", strings.Join([]string{blob, tree, c}, "\n")+"\n", "pack-objects", "-q", "--stdout")), c
	}, "git does not take"},
	"a name twice": ofCommit("git does not take", func(w *world) string {
		b := w.object("blob", "x")
		return w.child(w.tree([3]string{"100644", "x", b}, [3]string{"100644", "x", b}), w.begin)
	}),
	"a broken commit": {func(w *world) ([]byte, string) {
		raw := "tree " + w.git("clone", "rev-parse", "HEAD^{tree}") + "\nparent " + w.begin + "\nauthor a\ncommitter a\n\nx\n"
		c := w.object("commit", raw)
		return []byte(w.header(c) + packOf(packed{1, int64(len(raw)), nil, deflated(raw)})), c
	}, "git does not take"},
	"trees that hold each other many times": ofCommit("too much", func(w *world) string {
		tree := w.tree([3]string{"100644", "x", w.object("blob", "")})
		for range 9 {
			var many [][3]string
			for i := range 10 {
				many = append(many, [3]string{"40000", fmt.Sprint(i), tree})
			}
			tree = w.tree(many...)
		}
		return w.child(tree, w.begin)
	}),
	"more bytes than an object says": {func(w *world) ([]byte, string) {
		return []byte(w.header(w.begin[:39]+"0") + packOf(packed{3, 1 << 20, nil, zeros(10 << 30)})), w.begin[:39] + "0"
	}, "an object has not the 1048576 bytes"},
	"fewer bytes than an object says": {func(w *world) ([]byte, string) {
		return []byte(w.header(w.begin[:39]+"0") + packOf(packed{3, 100, nil, deflated("x")})), w.begin[:39] + "0"
	}, "an object has not the 100 bytes"},
	"a file of 10 GB": {func(w *world) ([]byte, string) {
		return []byte(w.header(w.begin[:39]+"0") + packOf(packed{3, 10 << 30, nil, zeros(10 << 30)})), w.begin[:39] + "0"
	}, "an object takes 10737418240 bytes"},
	"a delta that becomes 10 GB": {func(w *world) ([]byte, string) {
		delta := string(binary.AppendUvarint(binary.AppendUvarint(nil, 1<<20), 10<<30))
		return []byte(w.header(w.begin[:39]+"0") + packOf(packed{6, int64(len(delta)), []byte{1}, deflated(delta)})), w.begin[:39] + "0"
	}, "an object takes 10737418240 bytes"},
	"many deltas that become 10 GB": {func(w *world) ([]byte, string) {
		delta := string(binary.AppendUvarint(binary.AppendUvarint(nil, 1<<20), 100<<20))
		var many []packed
		for range 100 {
			many = append(many, packed{7, int64(len(delta)), make([]byte, 20), deflated(delta)})
		}
		return []byte(w.header(w.begin[:39]+"0") + packOf(many...)), w.begin[:39] + "0"
	}, "its objects take more than"},
	"a billion objects": {func(w *world) ([]byte, string) {
		return []byte(w.header(w.begin[:39]+"0") + "PACK\x00\x00\x00\x02\x40\x00\x00\x00" + strings.Repeat("x", 100)), w.begin[:39] + "0"
	}, "it has 1073741824 objects"},
}

func renamed(ref string) func(*world, string, string, string) string {
	return func(_ *world, _, header, pack string) string {
		return strings.Replace(header, Ref("claim"), ref, 1) + pack
	}
}

// packed is one entry of a pack: its kind and size, the base of a delta, and its data.
type packed struct {
	kind int
	size int64
	base []byte
	data string
}

// packOf makes a pack of any entries.
func packOf(entries ...packed) string {
	var b strings.Builder
	b.WriteString("PACK\x00\x00\x00\x02")
	b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(entries))))
	for _, e := range entries {
		first := byte(e.kind<<4) | byte(e.size&15)
		if rest := e.size >> 4; rest > 0 {
			b.WriteByte(first | 0x80)
			b.Write(binary.AppendUvarint(nil, uint64(rest)))
		} else {
			b.WriteByte(first)
		}
		b.Write(e.base)
		b.WriteString(e.data)
	}
	sum := sha1.Sum([]byte(b.String()))
	return b.String() + string(sum[:])
}

func deflated(text string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // into memory
	_ = z.Close()
	return b.String()
}

// zeros are that many compressed zeros, with a wrong checksum: whole blocks of
// them all look the same.
func zeros(n int64) string {
	const block = 64 << 20
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, flate.BestSpeed)
	var marks []int
	for range 2 {
		_, _ = z.Write(make([]byte, block))
		_ = z.Flush()
		marks = append(marks, b.Len())
	}
	_ = z.Close()
	first, again, end := b.String()[:marks[0]], b.String()[marks[0]:marks[1]], b.String()[marks[1]:]
	return "\x78\x01" + first + strings.Repeat(again, int(n/block)-1) + end + "\x00\x00\x00\x00"
}

// Results that are not as they have to be are refused, in good time, and leave
// nothing behind.
func TestForgedResults(t *testing.T) {
	for name, f := range forgeries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			w.traps("repo/.git")
			data, commit := f.make(w)
			before := w.state("repo")
			began := time.Now()
			err := w.receive(data, announced(data), commit)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			if bridge.CodeOf(err) != bridge.CodeDenied || !strings.Contains(fmt.Sprint(err), f.why) {
				t.Errorf("%v", err)
			}
			if after := w.state("repo"); after != before {
				t.Errorf("the repository has changed:\n%s\n%s", before, after)
			}
			w.noLeftovers()
			w.sprung()
			// The next good one is taken.
			c := w.good()
			data = w.forge(c)
			if err := w.receive(data, announced(data), c); err != nil {
				t.Error(err)
			}
			w.git("repo", "checkout", "-q", "--detach", c)
		})
	}
}

func (w *world) receive(data []byte, b fleet.Bundle, commit string) error {
	return Receive(w.t.Context(), w.repo, bytes.NewReader(data), b, Expect{Name: "claim", Commit: commit, Parent: w.begin})
}

// state is all that is in a repository.
func (w *world) state(dir string) string {
	w.t.Helper()
	return w.git(dir, "for-each-ref") + w.git(dir, "count-objects", "-v") + w.git(dir, "config", "--list", "--local") + w.git(dir, "worktree", "list")
}

// traps puts programs where git would run them for a person.
func (w *world) traps(gitDir string) {
	w.t.Helper()
	program := "#!/bin/sh\necho x >> " + w.at("marks/sprung") + "\n"
	for _, hook := range []string{"reference-transaction", "post-merge", "post-checkout", "post-receive", "pre-receive", "update", "post-update", "post-index-change"} {
		w.write(".", filepath.Join(gitDir, "hooks", hook), program)
		if err := os.Chmod(w.at(filepath.Join(gitDir, "hooks", hook)), 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	mark := "echo x >> " + w.at("marks/sprung")
	f, err := os.OpenFile(w.at(filepath.Join(gitDir, "config")), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(f, "[core]\n\tfsmonitor = %[1]s\n\tpager = %[1]s\n\tsshCommand = %[1]s\n[filter \"evil\"]\n\tsmudge = %[1]q\n\tclean = %[1]q\n[diff \"evil\"]\n\ttextconv = %[1]q\n"+
			"[fetch]\n\tfsckObjects = false\n[fsck]\n\thasDotgit = ignore\n", mark)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sprung() {
	w.t.Helper()
	if _, err := os.Stat(w.at("marks/sprung")); err == nil {
		w.t.Error("a program that the repository names was run")
	}
}

// What comes is not what was announced.
func TestAnnouncedOtherwise(t *testing.T) {
	w := newWorld(t, 0)
	c := w.good()
	data := w.forge(c)
	for name, change := range map[string]func(*fleet.Bundle, *Expect){
		"is not the one that was announced": func(b *fleet.Bundle, _ *Expect) { b.SHA256 = strings.Repeat("0", 64) },
		"is larger than":                    func(b *fleet.Bundle, _ *Expect) { b.Size-- },
		"ends after":                        func(b *fleet.Bundle, _ *Expect) { b.Size++ },
		"and the limit is":                  func(b *fleet.Bundle, e *Expect) { e.MaxBytes = b.Size - 1 },
		"bytes, and the limit is":           func(b *fleet.Bundle, _ *Expect) { b.Size = -1 },
		"there is no bundle":                func(b *fleet.Bundle, _ *Expect) { b.Object = "" },
		"is no commit":                      func(_ *fleet.Bundle, e *Expect) { e.Commit = "--all" },
		"of one repository":                 func(_ *fleet.Bundle, e *Expect) { e.Parent = strings.Repeat("1", 64) },
		"the bundle builds on":              func(_ *fleet.Bundle, e *Expect) { e.Parent = strings.Repeat("1", 40) },
	} {
		b, e := announced(data), Expect{Name: "claim", Commit: c, Parent: w.begin}
		change(&b, &e)
		if err := Receive(t.Context(), w.repo, bytes.NewReader(data), b, e); bridge.CodeOf(err) != bridge.CodeDenied || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A result without changes has no bundle.
	if err := Receive(t.Context(), w.repo, nil, fleet.Bundle{}, Expect{Name: "claim", Commit: w.begin, Parent: w.begin}); err != nil {
		t.Error(err)
	}
	w.noLeftovers()
}

// What a repository has had before is no reason to refuse a result.
func TestOddRepositories(t *testing.T) {
	w := newWorld(t, 0)
	w.write("repo", ".gitattributes", "*.txt filter=evil diff=evil\n")
	w.git("repo", "submodule", "--quiet", "add", w.at("clone"), "sub")
	w.begin = w.commit("repo", "a submodule")
	w.git("clone", "pull", "-q")
	w.traps("repo/.git")
	w.write("clone", "a.txt", "changed\n")
	w.git("clone", "mv", "inside", "dir/moved")
	if err := os.Remove(w.at("clone/dir/moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../a.txt", w.at("clone/dir/moved")); err != nil {
		t.Fatal(err)
	}
	c := w.commit("clone", "work")
	data, b := w.bundleOf(w.openClone(), c, w.begin)
	if err := w.receive(data, b, c); err != nil {
		t.Error(err)
	}
	w.sprung()
	w.git("clone", "rm", "-q", "-f", "--cached", "sub", "outside")
	w.git("clone", "commit", "-q", "--amend", "-m", "without them")
	c = w.git("clone", "rev-parse", "HEAD")
	if data, b = w.bundleOf(w.openClone(), c, w.begin); w.receive(data, b, c) != nil {
		t.Error(w.receive(data, b, c))
	}
}

// What a task may not write it may not remove either, nor with its directory.
func TestPolicyStays(t *testing.T) {
	w := newWorld(t, 0)
	w.write("repo", "sub/deep/.agent-policy.yaml", "shell: {deny: [rm]}\n")
	w.write("repo", "sub/other.txt", "other\n")
	w.begin = w.commit("repo", "a policy")
	w.git("clone", "pull", "-q")
	blob := w.object("blob", "x\n")
	for name, forged := range map[string]string{
		"removed":             w.with("40000", "sub", w.tree([3]string{"100644", "other.txt", blob})),
		"with its directory":  w.with("100644", "a.txt", blob),
		"a file in its place": w.with("100644", "sub", blob),
		"changed":             w.with("40000", "sub", w.tree([3]string{"40000", "deep", w.tree([3]string{"100644", ".agent-policy.yaml", blob})})),
	} {
		data := w.forge(forged)
		if err := w.receive(data, announced(data), forged); bridge.CodeOf(err) != bridge.CodeDenied || !strings.Contains(err.Error(), "for people alone") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.git("clone", "rm", "-q", "sub/other.txt")
	c := w.commit("clone", "without a file beside it")
	data := w.forge(c)
	if err := w.receive(data, announced(data), c); err != nil {
		t.Error(err)
	}
}

// A bomb costs neither memory nor disk.
func TestBombCostsLittle(t *testing.T) {
	w := newWorld(t, 0)
	data, commit := forgeries["more bytes than an object says"].make(w)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	err := w.receive(data, announced(data), commit)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if bridge.CodeOf(err) != bridge.CodeDenied {
		t.Error(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 || took > 10*time.Second {
		t.Errorf("%d bytes, %s", used, took)
	}
}
