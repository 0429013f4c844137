// Command release makes the parts of a release that goreleaser does not make: see
// .goreleaser.yaml. It uses the standard library and the program itself alone,
// and gives the same bytes for the same commit.
//
//	release pages DIR DATE   completions of four shells and man pages, before the build
//	release finish DIST      SBOMs, an OCI image, a Homebrew formula and their checksums, after it
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	err := errors.New("usage: release pages DIR DATE | release finish DIST")
	switch args := os.Args[1:]; {
	case len(args) == 3 && args[0] == "pages":
		err = pages(args[1], args[2])
	case len(args) == 2 && args[0] == "finish":
		err = finish(args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// metadata is what goreleaser says of the release.
type metadata struct {
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Date    time.Time `json:"-"` // of the commit
}

// artifact is a file that goreleaser has made.
type artifact struct {
	Name string `json:"name"`
	Path string `json:"path"`
	OS   string `json:"goos"`
	Arch string `json:"goarch"`
	Type string `json:"type"`
}

// release is what goreleaser has made.
type release struct {
	dist string
	metadata
	artifacts []artifact
	made      []string // by finish, names in dist
}

func readRelease(dist string) (*release, error) {
	r := &release{dist: dist}
	for file, into := range map[string]any{"metadata.json": &r.metadata, "artifacts.json": &r.artifacts} {
		data, err := os.ReadFile(filepath.Join(dist, file))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w; run goreleaser first", file, err)
		}
	}
	for _, a := range r.of("Binary") {
		info, err := os.Stat(a.Path)
		if err != nil {
			return nil, err
		}
		r.Date = info.ModTime().UTC() // goreleaser sets the commit's
	}
	return r, nil
}

// of lists the artifacts of a type, in an order that does not change.
func (r *release) of(kind string) (out []artifact) {
	for _, a := range r.artifacts {
		if a.Type == kind {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b artifact) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// write makes a file of the release.
func (r *release) write(name string, data []byte) error {
	r.made = append(r.made, name)
	return os.WriteFile(filepath.Join(r.dist, name), data, 0o644)
}

func finish(dist string) error {
	r, err := readRelease(dist)
	if err != nil {
		return err
	}
	for _, step := range []func() error{r.sboms, r.image, r.formula, r.addChecksums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// addChecksums adds what this program has made to goreleaser's list.
func (r *release) addChecksums() error {
	file := filepath.Join(r.dist, "checksums.txt")
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(old)), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { // of an earlier run
		return slices.ContainsFunc(r.made, func(name string) bool { return strings.HasSuffix(line, "  "+name) })
	})
	for _, name := range r.made {
		sum, err := sha256Of(filepath.Join(r.dist, name))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+name)
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

func sha256Of(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return digest(data), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
