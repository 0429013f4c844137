package paths

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzResolve compares with the standard library's own way of following links,
// in a real tree with one link more whose target is chosen by the fuzzer.
func FuzzResolve(f *testing.F) {
	for _, tc := range pathCases(f) {
		f.Add(tc.Path, "../outer")
	}
	for _, target := range []string{"", "..", "/", "src", "src/..", "link/..", "nothing/../..", "/etc", "fuzzed", "./up/outer", "{{ws}}/src", "{{out}}"} {
		f.Add("fuzzed/x", target)
		f.Add("src/../fuzzed/../x", target)
		f.Add("fuzzed", target)
	}
	tr := newTree(f)
	w := open(f, tr)
	f.Fuzz(func(t *testing.T, path, target string) {
		path, target = tr.fill(path), tr.fill(target)
		link := filepath.Join(tr.ws, "fuzzed")
		if os.Symlink(target, link) == nil {
			defer func() {
				if err := os.Remove(link); err != nil {
					t.Error(err)
				}
			}()
		}
		for name, resolve := range map[string]func(string) (Resolved, error){"path": w.Resolve, "glob": w.ResolveGlob} {
			got, err := resolve(path)
			if err != nil && got.Inside {
				t.Fatalf("%s %q: inside and an error: %v", name, path, err)
			}
			if err != nil || !got.Inside || name == "glob" {
				continue
			}
			if got.Abs != filepath.Clean(got.Abs) || filepath.Join(tr.ws, got.Rel) != got.Abs {
				t.Fatalf("%q: %+v is not consistent", path, got)
			}
			plain, err := w.plain(path)
			if err != nil {
				t.Fatal(err)
			}
			if !filepath.IsAbs(plain) {
				plain = tr.ws + "/" + plain
			}
			for _, form := range []string{plain, filepath.Clean(plain)} {
				at, full := realPath(form)
				if at != tr.ws && !strings.HasPrefix(at, tr.ws+"/") && !strings.HasPrefix(tr.ws+"/", strings.TrimSuffix(at, "/")+"/") {
					t.Fatalf("%q is said to be %s, but leads to %s", path, got.Abs, at)
				}
				if full && at != got.Abs {
					t.Fatalf("%q is said to be %s, but is %s", path, got.Abs, at)
				}
			}
		}
	})
}

// realPath resolves the longest existing part of path, and says whether that
// is all of it.
func realPath(path string) (at string, full bool) {
	for rest := strings.TrimRight(path, "/"); rest != ""; rest = strings.TrimRight(rest[:strings.LastIndexByte(rest, '/')], "/") {
		if found, err := filepath.EvalSymlinks(rest); err == nil {
			return found, rest == strings.TrimRight(path, "/")
		}
	}
	return "/", path == "/"
}

func FuzzCollect(f *testing.F) {
	for _, tc := range collectCases(f) {
		f.Add([]byte(tc.Args))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var args any
		if json.Unmarshal(raw, &args) != nil {
			return
		}
		found, err := Collect(args)
		if err != nil {
			return
		}
		for _, a := range found {
			if a.Value == "" && !a.Certain {
				t.Errorf("an empty value under %q", a.Key)
			}
		}
		again, err := Collect(json.RawMessage(raw))
		if err != nil || len(again) != len(found) {
			t.Fatalf("%d, then %d, %v", len(found), len(again), err)
		}
		for i := range found {
			if again[i] != found[i] {
				t.Fatalf("the order is not fixed: %v, %v", found[i], again[i])
			}
		}
		// The same arguments one level down mention the same paths.
		deeper, err := Collect(map[string]any{"edits": []any{args}})
		if err == nil && len(deeper) != len(found) {
			t.Fatalf("%d, one level down %d", len(found), len(deeper))
		}
	})
}
