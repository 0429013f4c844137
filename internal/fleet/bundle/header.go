package bundle

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
)

const (
	maxHeader = 1 << 20
	maxLine   = 4096 // git cuts the subjects of commits to fit a line
)

// readHeader reads a bundle's header and returns where the pack begins. It is
// stricter than `git bundle verify`: exactly one reference, the expected one; no
// filters; and for a result nothing is needed but its parent. Whether what is
// needed is there is found by unpacking.
func readHeader(f *os.File, e Expect) (begin int64, err error) {
	r := bufio.NewReaderSize(io.LimitReader(f, maxHeader), maxLine)
	line := func() (string, error) {
		b, err := r.ReadSlice('\n')
		begin += int64(len(b))
		if errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF) {
			return "", refused("the bundle's header does not end")
		}
		return strings.TrimSuffix(string(b), "\n"), err
	}
	opening := []string{"# v2 git bundle"}
	if len(e.Commit) == 64 {
		opening = []string{"# v3 git bundle", "@object-format=sha256"}
	}
	for _, want := range opening {
		got, err := line()
		if err != nil {
			return 0, err
		}
		if got != want {
			return 0, refused("the bundle says %.80q where %q belongs", got, want)
		}
	}
	found := false
	for {
		l, err := line()
		if err != nil {
			return 0, err
		}
		need, isNeed := strings.CutPrefix(l, "-")
		switch {
		case l == "" && found:
			return begin, nil
		case isNeed && !found:
			commit, _, _ := strings.Cut(need, " ")
			if len(commit) != len(e.Commit) || !commitName.MatchString(commit) {
				return 0, refused("the bundle needs %.80q", commit)
			}
			if e.Parent != "" && commit != e.Parent {
				return 0, refused("the bundle builds on commit %s, not on %s", commit, e.Parent)
			}
		case !found && l == e.Commit+" "+Ref(e.Name):
			found = true
		default:
			return 0, refused("the bundle names %.200q, and only %s at %s is expected", l, Ref(e.Name), e.Commit)
		}
	}
}
