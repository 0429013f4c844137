package audit

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// largeLog writes a log of n entries in segments of 10,000. Every thousandth was
// denied, and every ten-thousandth names a needle.
func largeLog(t testing.TB, dir string, n int) {
	t.Helper()
	prev, name := genesis, ""
	var f *os.File
	var out *bufio.Writer
	finish := func() {
		if f == nil {
			return
		}
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		e := Entry{Seq: uint64(i + 1), Time: time.Date(2026, 3, 1, 0, 0, i, 0, time.UTC), Hook: HookPreTool, Door: "acp", Session: fmt.Sprintf("session-%d", i/100),
			Tool: "bash", Decision: "allow", Input: map[string]any{"command": fmt.Sprintf("echo %0100d", i)}, Prev: prev}
		if i%1000 == 0 {
			e.Decision, e.Reason = "deny", `shell.deny "rm"`
		}
		if i%10000 == 0 {
			finish()
			e.PrevFile = name
			name = fmt.Sprintf("audit-2026-03-%02d.jsonl", i/10000+1)
			e.Tool, e.Input = "create", map[string]any{"path": `Größe "Needle" <x>`}
			var err error
			if f, err = os.Create(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			out = bufio.NewWriter(f)
		}
		line, hash, err := seal(e)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = out.Write(append(line, '\n')) // Flush says it
		prev = hash
	}
	finish()
	writeHead(t, dir, head{Seq: uint64(n), Hash: prev, File: name})
}

func seqs(f Found) (out []uint64) {
	for _, e := range f.Entries {
		out = append(out, e.Seq)
	}
	return out
}

// A search of 100,000 entries finds what is there, newest first, goes on where it
// ended, and does not read what it need not.
func TestLargeSearch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	largeLog(t, dir, 100_000)
	const long = time.Minute
	for name, tc := range map[string]struct {
		q      Query
		want   []uint64
		before uint64
	}{
		"the newest":       {Query{Limit: 3, Within: long}, []uint64{100000, 99999, 99998}, 99998},
		"a page":           {Query{Before: 50001, Limit: 2, Within: long}, []uint64{50000, 49999}, 49999},
		"the last page":    {Query{Before: 3, Limit: 5, Within: long}, []uint64{2, 1}, 0},
		"in any capitals":  {Query{Text: `größe "nEEDLE"`, Before: 20002, Limit: 5, Within: long}, []uint64{20001, 10001, 1}, 0},
		"in angles":        {Query{Text: `<x>`, Limit: 1, Within: long}, []uint64{90001}, 80002},
		"verdict and tool": {Query{Verdict: "deny", Tool: "create", Before: 20001, Limit: 5, Within: long}, []uint64{10001, 1}, 0},
		"a session":        {Query{Session: "session-9", Before: 1000, Limit: 1, Within: long}, []uint64{999}, 999},
		"and verdict":      {Query{Session: "session-17", Verdict: "deny", Before: 20001, Limit: 5, Within: long}, []uint64{17001}, 0},
		"a reason":         {Query{Text: "shell.deny", Before: 2002, Limit: 5, Within: long}, []uint64{2001, 1001, 1}, 0},
		"a key of ours":    {Query{Text: "prev_file", Before: 20002, Limit: 5, Within: long}, nil, 0},
		"nothing":          {Query{Text: "not-to-be-found", Limit: 5, Within: long}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := Search(t.Context(), dir, tc.q)
			if err != nil || !slices.Equal(seqs(found), tc.want) || found.Before != tc.before {
				t.Errorf("%v, before %d, %v", seqs(found), found.Before, err)
			}
		})
	}
	t.Run("in parts", func(t *testing.T) {
		t.Parallel()
		var all []uint64
		q := Query{Verdict: "deny", Limit: 30, Within: time.Second}
		for {
			found, err := Search(t.Context(), dir, q)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, seqs(found)...)
			if found.Before == 0 {
				break
			}
			if q.Before > 0 && found.Before >= q.Before {
				t.Fatalf("it goes on at %d after %d", found.Before, q.Before)
			}
			q.Before = found.Before
		}
		if len(all) != 100 || all[0] != 99001 || all[99] != 1 || !slices.IsSortedFunc(all, func(a, b uint64) int { return int(b) - int(a) }) {
			t.Error(len(all), all)
		}
	})
}

// Lines that are no entries are left out, and an entry that was changed is found.
func TestSearchOfDamagedLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if found, err := Search(t.Context(), filepath.Join(dir, "none"), Query{Limit: 1}); err != nil || len(found.Entries) > 0 {
		t.Error(found, err)
	}
	threeDays(t, dir)
	path := lastFile(t, dir)
	writeFile(t, path, "garbage\n{\"seq\":9,\"tool\":\"bash\"}\n"+strings.Replace(readFile(t, path), `"command":"ls"`, `"command":"lz"`, 1)+"{\"seq\":99")
	found, err := Search(t.Context(), dir, Query{Text: "lz", Tool: "bash", Limit: 9, Within: time.Minute})
	if err != nil || !slices.Equal(seqs(found), []uint64{13}) {
		t.Error(seqs(found), err)
	}
}
