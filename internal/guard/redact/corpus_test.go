package redact

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// corpus is ordinary source code that every machine with the Go toolchain
// has.
type corpus struct {
	name  string
	roots []string
	exts  []string
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// modules are the directories of the modules that this one needs. The cache may
// have others, of other tools.
func modules(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not .Main}}{{.Dir}}{{end}}", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// packages is where the tests of other programs' clients keep theirs: source
// code in TypeScript, most of it about keys and tokens. It is not there before
// those tests have run.
func packages(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "copilot-bridge-test", "clients-npm-*", "node_modules"))
	if err != nil || len(found) == 0 {
		return cache + "/copilot-bridge-test/clients-npm"
	}
	return found[0]
}

// TestFalseRedactions counts the hidden values in ordinary source code. Nearly
// all of them are test data that looks like secrets.
func TestFalseRedactions(t *testing.T) {
	corpora := []corpus{
		{"Go standard library", []string{filepath.Join(goEnv(t, "GOROOT"), "src")}, []string{".go"}},
		{"modules: JavaScript and TypeScript", modules(t), []string{".js", ".ts", ".tsx", ".mjs"}},
		{"packages: TypeScript", []string{packages(t)}, []string{".ts", ".mts", ".cts"}},
		{"modules: prose and configuration", modules(t), []string{".md", ".yml", ".yaml", ".toml"}},
	}
	if extra := os.Getenv("REDACT_CORPUS"); extra != "" {
		corpora = append(corpora, corpus{"REDACT_CORPUS", []string{extra}, strings.Split(os.Getenv("REDACT_CORPUS_EXTS"), ",")})
	}
	r := New(Options{}).Results()
	for _, c := range corpora {
		t.Run(c.name, func(t *testing.T) {
			bytes, hits := 0, 0
			where := map[string]int{}
			walkCorpus(t, c, func(path, text string) {
				bytes += len(text)
				out, n := r.String(text)
				if n == 0 {
					return
				}
				hits += n
				where[path] += n
				if os.Getenv("REDACT_SHOW") != "" {
					showHits(t, path, text, out)
				}
			})
			rate := float64(hits) / (float64(bytes)/1024/100 + 1e-9)
			t.Logf("%d redactions in %.1f MB: %.3f in 100 KB", hits, float64(bytes)/1e6, rate)
			for _, line := range most(where, 15) {
				t.Log(line)
			}
			if rate > 1 && bytes > 1<<20 {
				t.Errorf("%.2f redactions in 100 KB, at most 1 is allowed", rate)
			}
		})
	}
}

func walkCorpus(t *testing.T, c corpus, each func(path, text string)) {
	for _, root := range c.roots {
		walk(t, root, c.exts, each)
	}
}

func walk(t *testing.T, root string, exts []string, each func(path, text string)) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a directory that others are removing
		}
		if d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		ext := filepath.Ext(path)
		if d.IsDir() || !strings.Contains(strings.Join(exts, ",")+",", ext+",") || ext == "" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			each(path, string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func showHits(t *testing.T, path, text, out string) {
	before, after := strings.Split(text, "\n"), strings.Split(out, "\n")
	if len(before) != len(after) {
		t.Logf("%s: %d lines became %d", path, len(before), len(after))
		return
	}
	for i := range before {
		if before[i] != after[i] && len(before[i]) < 300 {
			t.Logf("%s:%d: %s", path, i+1, strings.TrimSpace(before[i]))
			t.Logf("    %s", strings.TrimSpace(after[i]))
		}
	}
}

func most(where map[string]int, n int) []string {
	var files []string
	for file := range where {
		files = append(files, file)
	}
	sort.Slice(files, func(i, j int) bool {
		if where[files[i]] != where[files[j]] {
			return where[files[i]] > where[files[j]]
		}
		return files[i] < files[j]
	})
	var lines []string
	for _, file := range files[:min(n, len(files))] {
		lines = append(lines, strings.Repeat(" ", 4)+file+": "+strconv.Itoa(where[file]))
	}
	return lines
}
