package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tamper is a way to change a log. It returns false if there was nothing to
// change.
type tamper struct {
	name string
	do   func(rng *rand.Rand, files [][]string) bool
}

// spot picks a line.
func spot(rng *rand.Rand, files [][]string) (f, l int) {
	f = rng.IntN(len(files))
	return f, rng.IntN(len(files[f]))
}

var tampers = []tamper{
	{"flip a bit", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		b := []byte(files[f][l])
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		files[f][l] = string(b)
		return true
	}},
	{"change a letter", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		before := files[f][l]
		files[f][l] = strings.Replace(before, []string{"allow", "bash", "read-only", "ls"}[rng.IntN(4)], "other", 1)
		return files[f][l] != before
	}},
	{"add a space", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		files[f][l] = strings.Replace(files[f][l], ":", ": ", 1)
		return true
	}},
	{"change and seal again", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		e, err := unseal([]byte(strings.TrimSuffix(files[f][l], "\n")))
		if err != nil {
			return false
		}
		e.Reason = "forged"
		line, _, err := seal(e)
		files[f][l] = string(line) + "\n"
		return err == nil
	}},
	{"remove a line", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		files[f] = slices.Delete(files[f], l, l+1)
		return true
	}},
	{"remove lines", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		files[f] = slices.Delete(files[f], l, l+1+rng.IntN(len(files[f])-l))
		return true
	}},
	{"empty a file", func(rng *rand.Rand, files [][]string) bool {
		files[rng.IntN(len(files))] = nil
		return true
	}},
	{"swap two lines", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		g, k := spot(rng, files)
		files[f][l], files[g][k] = files[g][k], files[f][l]
		return f != g || l != k
	}},
	{"repeat a line", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		g, k := spot(rng, files)
		files[g] = slices.Insert(files[g], k, files[f][l])
		return true
	}},
	{"move a line to another file", func(rng *rand.Rand, files [][]string) bool {
		f := rng.IntN(len(files) - 1)
		last := len(files[f]) - 1
		files[f+1] = slices.Insert(files[f+1], 0, files[f][last])
		files[f] = files[f][:last]
		return true
	}},
	{"put a forged line in", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		e, err := unseal([]byte(strings.TrimSuffix(files[f][l], "\n")))
		if err != nil {
			return false
		}
		line, _, err := seal(Entry{Seq: e.Seq + uint64(rng.IntN(2)), Hook: HookPreTool, Prev: e.Hash})
		files[f] = slices.Insert(files[f], l+1, string(line)+"\n")
		return err == nil
	}},
	{"put garbage in", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		files[f] = slices.Insert(files[f], l, []string{"garbage\n", "\n", "{}\n", `{"seq":3}` + "\n", "null\n"}[rng.IntN(5)])
		return true
	}},
	{"cut the end off", func(rng *rand.Rand, files [][]string) bool {
		last := len(files) - 1
		l := rng.IntN(len(files[last]))
		line := files[last][l]
		files[last] = append(files[last][:l], line[:rng.IntN(len(line))])
		return true
	}},
	{"cut a line short", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		files[f][l] = files[f][l][:rng.IntN(len(files[f][l])-1)] + "\n"
		return true
	}},
	{"join two lines", func(rng *rand.Rand, files [][]string) bool {
		f, l := spot(rng, files)
		files[f][l] = strings.TrimSuffix(files[f][l], "\n")
		return l+1 < len(files[f]) || f+1 < len(files) // at the very end it is an unfinished write
	}},
}

// TestTampering changes a log in every way at random places. Verify must find
// out each time, and still do so after more entries.
func TestTampering(t *testing.T) {
	template := t.TempDir()
	threeDays(t, template)
	names, err := files(template)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range tampers {
		t.Run(tt.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			kinds := map[Kind]int{}
			for round := range 20 {
				var content [][]string
				for _, name := range names {
					lines := strings.SplitAfter(readFile(t, filepath.Join(template, name)), "\n")
					content = append(content, lines[:len(lines)-1])
				}
				before := fmt.Sprint(content)
				if !tt.do(rng, content) || fmt.Sprint(content) == before {
					continue
				}
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
					t.Fatal(err)
				}
				for i, name := range names {
					writeFile(t, filepath.Join(dir, name), strings.Join(content[i], ""))
				}
				r := verify(t, dir)
				if r.OK() {
					t.Fatalf("round %d: nothing noticed", round)
				}
				for _, p := range r.Problems {
					kinds[p.Kind]++
					if p.Text == "" || p.String() == "" || p.File == "" {
						t.Errorf("problem without a place: %+v", p)
					}
				}
				if round%10 == 0 {
					c := newClock()
					c.t = c.t.Add(72 * 3600e9)
					appendEntries(t, openLog(t, dir, c), 2)
					if verify(t, dir).OK() {
						t.Fatalf("round %d: covered up by new entries", round)
					}
				}
			}
			if len(kinds) == 0 {
				t.Error("nothing was changed")
			}
			t.Logf("%v", kinds)
		})
	}
}

// TestWhere checks that Verify says where and what.
func TestWhere(t *testing.T) {
	tests := []struct {
		name string
		do   func(lines []string) []string // of the second of three files
		want []string
	}{
		{"edited", func(l []string) []string {
			l[2] = strings.Replace(l[2], "allow", "deny ", 1)
			return l
		}, []string{"audit-2026-03-02.jsonl:3: edited: entry 10 was changed: it does not have the hash that it was written with"}},
		{"removed", func(l []string) []string { return slices.Delete(l, 1, 3) },
			[]string{"audit-2026-03-02.jsonl:2: removed: entries 9 to 10 are missing"}},
		{"swapped", func(l []string) []string { l[1], l[2] = l[2], l[1]; return l },
			[]string{"audit-2026-03-02.jsonl:2: reordered: entries 9 to 9 are not in their place", "audit-2026-03-02.jsonl:3: reordered: entry 9 stands after entry 10"}},
		{"duplicated", func(l []string) []string { return slices.Insert(l, 3, l[2]) },
			[]string{"audit-2026-03-02.jsonl:4: duplicated: entry 10 stands there a second time"}},
		{"garbage", func(l []string) []string { return slices.Insert(l, 1, "garbage\n") },
			[]string{"audit-2026-03-02.jsonl:2: garbage: 7 bytes that are no entry"}},
		{"file emptied", func([]string) []string { return nil },
			[]string{"audit-2026-03-03.jsonl:1: removed: entries 8 to 12 are missing; the last of them was in audit-2026-03-02.jsonl"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			threeDays(t, dir)
			path := filepath.Join(dir, "audit-2026-03-02.jsonl")
			lines := strings.SplitAfter(readFile(t, path), "\n")
			writeFile(t, path, strings.Join(tt.do(lines[:len(lines)-1]), ""))
			var got []string
			for _, p := range verify(t, dir).Problems {
				got = append(got, p.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	dir := f.TempDir()
	threeDays(f, dir)
	names, err := files(dir)
	if err != nil {
		f.Fatal(err)
	}
	good := readFile(f, filepath.Join(dir, names[0]))
	f.Add([]byte(good), []byte(readFile(f, filepath.Join(dir, headName))))
	f.Add([]byte(good[:len(good)/2]), []byte("{}"))
	f.Add([]byte("\n\n{\n"), []byte(""))
	f.Fuzz(func(t *testing.T, log, headData []byte) {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, names[0]), string(log))
		writeFile(t, filepath.Join(dir, headName), string(headData))
		r, err := Verify(context.Background(), dir, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if r.OK() && string(log) != good && r.Entries > 0 && !strings.HasPrefix(good, strings.TrimRight(string(log), "\n")) && r.Entries > 1 {
			// Only a prefix of a good log, with an unfinished write at most,
			// can be clean without its author's having sealed it.
			t.Fatalf("clean: %q", log)
		}
		// Whatever it was, it can be gone on with.
		l := openLog(t, dir, newClock())
		if err := l.Append(context.Background(), Entry{Hook: HookStart}); err != nil {
			t.Fatal(err)
		}
		if after := verify(t, dir); !r.OK() && after.OK() {
			t.Fatalf("%v was covered up", r.Problems)
		}
		if _, err := Tail(context.Background(), dir, 100); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzUnseal(f *testing.F) {
	line, _, err := seal(Entry{Seq: 1, Hook: HookStart, Prev: genesis, Input: map[string]any{"a": 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"seq":1,"hash":"x"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := unseal(data)
		if err != nil {
			return
		}
		if e.Seq == 0 || len(e.Hash) != 64 {
			t.Fatalf("%+v", e)
		}
		if text := Format(e); strings.ContainsAny(text, "\n\r\x1b") {
			t.Fatalf("%q", text)
		}
	})
}
