package bundle

import (
	"context"
	"errors"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

const (
	modeLink      = "120000"
	modeSubmodule = "160000"

	// lookTime bounds the look through a result. Trees that hold the same tree many
	// times over are small, and endless to walk.
	lookTime = time.Minute
)

// checkResult checks that a result's only parent is the expected one, and that it
// adds nothing that could do harm where it is checked out: git itself has refused
// names like .git, and settings of submodules that run something.
func (a *arrival) checkResult(ctx context.Context) error {
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err := a.look(looking)
	if errors.Is(err, git.ErrTooMuch) || looking.Err() != nil && ctx.Err() == nil {
		return refused("they change too much to be looked through")
	}
	return err
}

func (a *arrival) look(ctx context.Context) error {
	e := a.expect
	out, code, err := a.repo.Run(ctx, git.Call{Incoming: a.in, OK: []int{128}, Args: []string{"diff-tree", "-r", "-m", "--root", "--always", "-z", "--raw",
		"--no-renames", "--ignore-submodules=none", "--format=%H %P", e.Commit}})
	if err != nil {
		return err
	}
	head, raw, _ := strings.Cut(out, "\x00")
	name, parents, _ := strings.Cut(head, " ")
	switch {
	case code != 0 || name != e.Commit:
		return refused("commit %s is not among them", e.Commit)
	case parents != e.Parent:
		return refused("the parents of commit %s are %.200q, and %s is expected", e.Commit, parents, e.Parent)
	}
	return a.checkChanges(ctx, strings.TrimPrefix(raw, "\n"))
}

// checkChanges judges what differs from the parent: entries of
// ":mode mode object object status\0path\0".
func (a *arrival) checkChanges(ctx context.Context, raw string) error {
	fields := strings.Split(strings.TrimSuffix(raw, "\x00"), "\x00")
	var names, objects []string // of what has to be read
	isLink := map[string]bool{}
	for i := 0; i+1 < len(fields); i += 2 {
		words, name := strings.Fields(strings.TrimPrefix(fields[i], ":")), fields[i+1]
		if len(words) != 5 {
			return &bridge.Error{Code: bridge.CodeInternal, Message: "git diff-tree said " + strconv.Quote(fields[i])}
		}
		switch mode := words[1]; {
		case mode == modeSubmodule:
			err := refused("%.200q is a submodule, which the result adds or changes", name)
			err.Remedy = "run the task without --fleet"
			return err
		case mode == modeLink:
			isLink[name] = true
			names, objects = append(names, name), append(objects, words[3])
		case mode == "100644" || mode == "100755":
			if strings.EqualFold(path.Base(name), ".gitattributes") {
				names, objects = append(names, name), append(objects, words[3])
			}
		case mode != "000000":
			return refused("%.200q has the mode %s", name, mode)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	texts, err := a.read(ctx, objects)
	if err != nil {
		return err
	}
	for i, name := range names {
		switch {
		case isLink[name] && git.LeadsOut(name, texts[i]):
			return refused("%.200q is a link to %.200q, out of the repository", name, texts[i])
		case !isLink[name] && usesLFS.MatchString(texts[i]):
			return refused("%.200q keeps files with Git LFS, whose contents are not in commits", name)
		}
	}
	return nil
}

var usesLFS = regexp.MustCompile(`(?m)^[^#\n]*filter=lfs`)

// read returns the contents of objects, in the order of their names.
func (a *arrival) read(ctx context.Context, objects []string) ([]string, error) {
	out, _, err := a.repo.Run(ctx, git.Call{Incoming: a.in, Args: []string{"cat-file", "--batch=%(objectsize)"}, Input: strings.Join(objects, "\n") + "\n"})
	if err != nil {
		return nil, err
	}
	var texts []string
	for range objects {
		head, rest, _ := strings.Cut(out, "\n")
		size, err := strconv.Atoi(head)
		if err != nil || size < 0 || size >= len(rest) {
			return nil, refused("one of its files is not there")
		}
		texts, out = append(texts, rest[:size]), rest[size+1:]
	}
	return texts, nil
}
