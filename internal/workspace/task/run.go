package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task/group"
)

// The bounds of a command that names none.
const (
	DefaultTimeout   = 10 * time.Minute
	DefaultMaxOutput = 1 << 20
)

const (
	grace     = 2 * time.Second // between SIGTERM and SIGKILL
	pipeGrace = time.Second     // for output held open by what left the process group
)

// Spec is one command to run. Exactly one of Command and Shell is set.
type Spec struct {
	Dir     string   // absolute; where the command runs
	Command []string // program and arguments, without a shell
	Shell   string   // a line for the shell: /bin/sh -c, cmd /C on Windows
	Env     []string // the whole environment; nothing else is inherited
	Stdin   []byte   // nothing by default

	Timeout   time.Duration // 0: DefaultTimeout
	MaxOutput int           // kept of each stream; 0: DefaultMaxOutput

	// OnOutput gets each stream ("stdout", "stderr") in pieces of whole UTF-8
	// characters as it comes, up to MaxOutput bytes of it. Calls do not
	// overlap. While one lasts the command may have to wait, so it should be
	// brief; Run does not return before it does. It must not keep text.
	OnOutput func(stream string, text []byte)

	// Trees, if set, runs the command under a supervisor, so that nothing of
	// it outlives a bridge that is killed.
	Trees group.Trees
}

// Result is how a command ended. Output that is no UTF-8 has replacement
// characters; where it was too long, its middle is missing, with a note there.
type Result struct {
	ExitCode   int    `json:"exitCode"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	Truncated  bool   `json:"truncated"`
	DurationMs int64  `json:"durationMs"`
	TimedOut   bool   `json:"timedOut"`
	Signal     string `json:"signal,omitempty"`
}

// Run runs a command to its end. A command that fails or runs out of time is
// no error: the result says so. When ctx ends, the command is ended like one
// that ran out of time (SIGTERM to its whole process group, SIGKILL 2 s
// later), and Run returns what there was along with the error. What a command
// leaves running in its process group when it ends is killed.
func Run(ctx context.Context, spec Spec) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, canceled(err)
	}
	cmd, err := spec.prepare()
	if err != nil {
		return Result{}, err
	}
	timeout := spec.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	streams, err := newStreams(cmd, spec)
	if err != nil {
		return Result{}, fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	began := time.Now()
	g, err := group.Start(cmd, spec.Trees)
	if err != nil {
		streams.abandon()
		return Result{}, startError(spec, err)
	}
	streams.copy()

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var result Result
	var endErr error
	select {
	case <-g.Done():
	case <-timer.C:
		result.TimedOut = true
		endErr = g.End(ctx, grace)
	case <-ctx.Done():
		endErr = g.End(context.WithoutCancel(ctx), grace)
	}
	streams.finish()

	result.DurationMs = time.Since(began).Milliseconds()
	result.Stdout, result.Stderr = streams.out.String(), streams.err.String()
	result.Truncated = streams.out.truncated() || streams.err.truncated()
	if endErr != nil {
		return result, fmt.Errorf("end %s: %w", cmd.Path, endErr)
	}
	result.ExitCode, result.Signal = g.Exit()
	if err := ctx.Err(); err != nil && !result.TimedOut {
		return result, canceled(err)
	}
	return result, waitError(g.Err())
}

func (s Spec) prepare() (*exec.Cmd, error) {
	argv := s.Command
	switch {
	case len(s.Command) > 0 && s.Shell != "":
		return nil, invalid("both a command and a shell line were given", "Give one of them.")
	case s.Shell != "":
		argv = shellCommand(s.Shell)
	case len(s.Command) == 0 || s.Command[0] == "":
		return nil, invalid("no command was given", "Give a command or a shell line.")
	}
	for _, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			return nil, invalid("the command has a NUL byte in it", "Remove the NUL byte.")
		}
	}
	if !filepath.IsAbs(s.Dir) {
		return nil, invalid(fmt.Sprintf("the directory %q is not absolute", s.Dir), "Give an absolute directory.")
	}
	path, err := lookPath(argv[0], s.Dir, s.Env)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: path, Args: argv, Dir: s.Dir, Env: s.Env}
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	return cmd, nil
}

func shellCommand(line string) []string {
	if runtime.GOOS == "windows" { // untried
		return []string{"cmd", "/S", "/C", line}
	}
	return []string{"/bin/sh", "-c", line}
}

// lookPath finds a program the way the command itself would: by the PATH of
// its own environment, and relative to its own directory. os/exec would use
// ours for both.
func lookPath(name, dir string, env []string) (string, error) {
	notFound := &bridge.Error{
		Code:    bridge.CodeNotFound,
		Message: fmt.Sprintf("the program %q was not found", name),
		Remedy:  "Install it, or see that it is on the PATH that commands run with.",
	}
	if strings.ContainsRune(name, '/') || filepath.Base(name) != name {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		found, err := exec.LookPath(path)
		if err != nil {
			notFound.Cause = err
			return "", notFound
		}
		return found, nil
	}
	for _, d := range filepath.SplitList(lookupEnv(env, "PATH")) {
		if !filepath.IsAbs(d) {
			continue // the workspace must not put programs in the place of others
		}
		if found, err := exec.LookPath(filepath.Join(d, name)); err == nil {
			return found, nil
		}
	}
	return "", notFound
}

func lookupEnv(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		key, value, _ := strings.Cut(env[i], "=")
		if key == name || (runtime.GOOS == "windows" && strings.EqualFold(key, name)) {
			return value
		}
	}
	return ""
}

func startError(spec Spec, err error) error {
	if info, statErr := os.Stat(spec.Dir); statErr != nil || !info.IsDir() {
		return &bridge.Error{
			Code: bridge.CodeNotFound, Message: fmt.Sprintf("there is no directory %s to run in", spec.Dir),
			Remedy: "Correct the task's directory.", Cause: err,
		}
	}
	return fmt.Errorf("start the command: %w", err)
}

// waitError leaves out that the program failed, which the result tells.
func waitError(err error) error {
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) {
		return nil
	}
	return fmt.Errorf("wait for the command: %w", err)
}

func canceled(err error) error {
	code, message := bridge.CodeCanceled, "the command was canceled"
	if errors.Is(err, context.DeadlineExceeded) {
		code, message = bridge.CodeTimeout, "the command was ended because its caller's time ran out"
	}
	return &bridge.Error{Code: code, Message: message, Cause: err}
}

func invalid(message, remedy string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: message, Remedy: remedy}
}

// streams are the pipes of one command. abandon ends them if the command did
// not start; copy and finish belong together.
type streams struct {
	out, err *output
	mine     []*os.File // our ends: stdout, stderr
	theirs   []*os.File
	input    string // temporary file to remove, if any
	wg       sync.WaitGroup
}

func newStreams(cmd *exec.Cmd, spec Spec) (*streams, error) {
	limit := spec.MaxOutput
	if limit <= 0 {
		limit = DefaultMaxOutput
	}
	var turn sync.Mutex // OnOutput calls do not overlap
	s := &streams{
		out: newOutput("stdout", limit, &turn, spec.OnOutput),
		err: newOutput("stderr", limit, &turn, spec.OnOutput),
	}
	for _, target := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			s.abandon()
			return nil, err
		}
		s.mine, s.theirs = append(s.mine, r), append(s.theirs, w)
		*target = w
	}
	if len(spec.Stdin) > 0 {
		f, err := s.feed(spec.Stdin)
		if err != nil {
			s.abandon()
			return nil, err
		}
		cmd.Stdin = f
	}
	return s, nil
}

// feed puts the input into a file: a supervisor would take the end of a pipe
// for the end of the bridge.
func (s *streams) feed(input []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "copilot-bridge-input-")
	if err != nil {
		return nil, err
	}
	s.theirs, s.input = append(s.theirs, f), f.Name()
	if _, err := f.Write(input); err != nil {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

func (s *streams) abandon() {
	for _, f := range append(s.mine, s.theirs...) {
		_ = f.Close() // nothing was written
	}
	s.removeInput()
}

// removeInput is best effort: what stays is in the system's temporary
// directory, for this user's eyes only.
func (s *streams) removeInput() {
	if s.input != "" {
		_ = os.Remove(s.input)
	}
}

func (s *streams) copy() {
	for _, f := range s.theirs {
		_ = f.Close() // the command has its own copy
	}
	for i, o := range []*output{s.out, s.err} {
		s.wg.Go(func() { o.readFrom(s.mine[i]) })
	}
	if runtime.GOOS != "windows" { // where it can only go once it is closed everywhere
		s.removeInput()
	}
}

// finish waits for the rest of the output. Something that left the process
// group may hold the pipes for ever, so the wait is short.
func (s *streams) finish() {
	deadline := time.Now().Add(pipeGrace)
	for _, f := range s.mine {
		if f.SetDeadline(deadline) != nil {
			_ = f.Close() // cannot happen to a pipe; if it does, do not hang
		}
	}
	s.wg.Wait()
	for _, f := range s.mine {
		_ = f.Close() // it was only read
	}
	s.removeInput()
}
