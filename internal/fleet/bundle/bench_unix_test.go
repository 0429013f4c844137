//go:build unix

package bundle

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// BenchmarkCarry measures both ways of a task in a repository of 5,000 files.
func BenchmarkCarry(b *testing.B) {
	for name, size := range map[string]int{"small": 100, "50MB": 50 << 20} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, 5000)
			id := w.repoID()
			m := w.openMirror(id)
			defer m.Close()
			receive := func(commit string, data []byte, c fleet.Bundle) {
				if err := m.Receive(b.Context(), bytes.NewReader(data), c, Expect{Name: "claim", Commit: commit}); err != nil {
					b.Fatal(err)
				}
			}
			data, c := w.bundleOf(w.repo, w.begin)
			receive(w.begin, data, c)
			noise := make([]byte, size)
			source := rand.NewChaCha8([32]byte{1})
			commits := make([]string, 0, b.N)
			for range b.N {
				_, _ = source.Read(noise) // never fails
				w.write("repo", "many/07/noise", string(noise))
				commits = append(commits, w.commit("repo", "next"))
			}
			have, i := w.begin, 0
			step := func(name string, do func(commit string)) {
				b.Run(name, func(b *testing.B) {
					for range b.N {
						do(commits[i%len(commits)])
					}
				})
			}
			b.ResetTimer()
			step("make begin", func(commit string) { data, c = w.bundleOf(w.repo, commit, have) })
			step("receive begin", func(commit string) { receive(commit, data, c) })
			work := ""
			step("make result", func(commit string) {
				if work == "" {
					work = benchWork(b, m.Repo, commit, noise)
				}
				data, c = w.bundleOf(m.Repo, work, commit)
			})
			step("receive result", func(commit string) {
				if err := Receive(b.Context(), w.repo, bytes.NewReader(data), c, Expect{Name: "claim", Commit: work, Parent: commit}); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// benchWork is a commit with one more file.
func benchWork(b *testing.B, repo *git.Repository, begin string, noise []byte) string {
	noise[0]++
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), noise, 0o600); err != nil {
		b.Fatal(err)
	}
	ask := func(c git.Call) string {
		out, err := repo.Line(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
	index := filepath.Join(dir, "index")
	ask(git.Call{Index: index, Args: []string{"read-tree", begin}})
	blob := ask(git.Call{Args: []string{"hash-object", "-w", filepath.Join(dir, "x")}})
	ask(git.Call{Index: index, Args: []string{"update-index", "--add", "--cacheinfo", fmt.Sprintf("100644,%s,many/03/x", blob)}})
	return ask(git.Call{Args: []string{"commit-tree", ask(git.Call{Index: index, Args: []string{"write-tree"}}), "-m", "x", "-p", begin}})
}
