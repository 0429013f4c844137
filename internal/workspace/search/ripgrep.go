package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// ripgrep searches with the program o.RG and fills found. It returns when the
// program has ended. If the bridge dies, ripgrep ends soon: its next
// line of output, or the end of the tree, ends it.
//
// The program reads the tree by paths and not through an os.Root. It follows
// no links; a directory that is replaced by one between its look and its open
// is beyond what can be held here.
//
// ripgrep holds a whole line, and all output of a file, in memory. A number of
// hits a file bounds the one and a limit of the process the other. If it dies
// of that it is run again without large files.
func ripgrep(ctx context.Context, o Options, filter *files.Filter, found *collection) error {
	searched := map[string]bool{}
	err := runRipgrep(ctx, o, filter, found, searched)
	if !errors.Is(err, errMemory) || found.done {
		return err
	}
	if o.MaxFileSize == 0 || o.MaxFileSize > scannedSize {
		o.MaxFileSize = scannedSize
	}
	err = runRipgrep(ctx, o, filter, found, searched)
	found.truncated = true
	return err
}

var errMemory = errors.New("ripgrep needs more memory than it may have")

// runRipgrep takes the hits of files that are not in searched, and adds those
// files.
func runRipgrep(ctx context.Context, o Options, filter *files.Filter, found *collection, searched map[string]bool) (err error) {
	find := columns(o)
	args, release, err := arguments(o, filter, find == nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Without RIPGREP_CONFIG_PATH and all secrets.
	c, err := program.New(program.Place{Dir: o.Dir, Env: []string{"PATH=" + os.Getenv("PATH")}}, o.RG, args...)
	if err != nil {
		return notStarted(o, err)
	}
	// The end of the context kills ripgrep, and with it the other end.
	stdout, theirs, pause, err := attach()
	if err != nil {
		return err
	}
	defer func() { _ = stdout.Close() }() // only read from
	stderr := &program.Head{Limit: 4 << 10}
	var exit program.Exit
	var runErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit, runErr = c.Run(ctx, program.RunOptions{Stdout: theirs, Stderr: stderr, Started: func(pid int) { limitMemory(pid, o.memory) }})
		_ = theirs.Close() // so that the reader comes to an end
	}()
	out := &output{found: found, find: find, pause: pause, keep: func(file string) bool {
		if searched[file] || inGit(file) || !filter.File(file) {
			return false
		}
		searched[file] = true
		return true
	}}
	readErr := out.read(stdout)
	if found.done || readErr != nil {
		cancel()
	}
	<-ended
	switch {
	case found.done:
		return nil
	case exit.Signal == aborted && ctx.Err() == nil:
		found.flush()
		return errMemory
	case runErr != nil && ctx.Err() == nil:
		return notStarted(o, runErr)
	}
	return verdict(o, errors.Join(readErr, ctx.Err()), exit, strings.TrimSpace(stderr.String()))
}

// inGit reports whether a path lies below a name .git, which an ignore
// file may have brought in by a negation.
func inGit(file string) bool {
	return strings.Contains(file, ".git") && strings.Contains("/"+file+"/", "/.git/")
}

// arguments are the program's arguments. release removes what they name.
func arguments(o Options, filter *files.Filter, column bool) (args []string, release func() error, err error) {
	args = []string{
		"--no-config", "--color=never", "--heading", "--null", "--line-number", "--no-context-separator",
		"--no-messages", "--no-ignore-messages", "--path-separator=/", "--no-ignore-global",
	}
	above, inRepository := files.Repository(o.Dir)
	flag := func(on bool, name string) {
		if on {
			args = append(args, name)
		}
	}
	flag(column, "--column")
	flag(o.NoIgnore, "--no-ignore")
	flag(!o.NoIgnore && !inRepository, "--no-require-git")
	flag(!o.NoIgnore && len(above) == 0, "--no-ignore-parent")
	flag(o.Hidden, "--hidden")
	flag(o.Hidden, "--glob=!.git")
	flag(o.CaseSensitive, "--case-sensitive")
	flag(!o.CaseSensitive, "--ignore-case")
	flag(o.Word, "--word-regexp")
	flag(!o.Regex, "--fixed-strings")
	// To ask for the size of every file adds a tenth to the time, so that is
	// done only on request.
	flag(o.MaxFileSize > 0, "--max-filesize="+strconv.FormatInt(o.MaxFileSize, 10))
	// One more tells whether there are more.
	args = append(args, "--max-count="+strconv.Itoa(min(o.MaxResults, 1<<30)+1))
	flag(o.Context > 0, "--context="+strconv.Itoa(o.Context))
	for _, p := range filter.Exclude() {
		flag(plain(p), "--glob=!/"+p)
	}
	release = func() error { return nil }
	if rules := includeRules(filter.Include(), o.Hidden); rules != "" {
		name, err := temporary(rules)
		if err != nil {
			return nil, nil, err
		}
		release = func() error { return os.Remove(name) }
		args = append(args, "--ignore-file="+name)
	}
	return append(args, "--regexp="+o.Query, "--", "./"), release, nil
}

func temporary(text string) (name string, err error) {
	f, err := os.CreateTemp("", "copilot-bridge-scope-")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func notStarted(o Options, err error) error {
	if info, statErr := os.Stat(o.Dir); statErr != nil || !info.IsDir() {
		return noDirectory(o.Dir, statErr)
	}
	return &bridge.Error{
		Code:    bridge.CodeUnavailable,
		Message: fmt.Sprintf("ripgrep at %s could not be started", o.RG),
		Remedy:  "Name another ripgrep in the configuration, or run `copilot-bridge setup`, which installs one with the runtime.",
		Cause:   err,
	}
}

func noDirectory(dir string, cause error) error {
	return &bridge.Error{
		Code:    bridge.CodeNotFound,
		Message: fmt.Sprintf("the directory to search, %s, is not there", dir),
		Remedy:  "Name the workspace's directory.",
		Cause:   cause,
	}
}

// verdict words how a search went that came to its end. Status 1 is that of a
// search without hits; 2 without words that of one that could not read some
// file, which is passed over.
func verdict(o Options, readErr error, exit program.Exit, said string) error {
	switch {
	case readErr != nil:
		return &bridge.Error{Code: bridge.CodeInternal, Message: "the search failed" + colon(said), Cause: readErr}
	case exit.Code == 0:
		return nil
	case exit.Code != 1 && exit.Code != 2:
		return &bridge.Error{Code: bridge.CodeInternal, Message: "ripgrep failed" + colon(said), Cause: exit.Err()}
	case exit.Code == 1 || said == "":
		return nil
	case o.Regex:
		return badRegex(strings.TrimPrefix(said, "rg: "))
	default:
		return &bridge.Error{Code: bridge.CodeInternal, Message: "ripgrep failed" + colon(said)}
	}
}

func badRegex(said string) error {
	return &bridge.Error{
		Code:    bridge.CodeInvalid,
		Message: "the regular expression is wrong: " + said,
		Remedy:  "Correct it, or search for literal text.",
	}
}

func colon(said string) string {
	if said == "" {
		return ""
	}
	return ": " + said
}
