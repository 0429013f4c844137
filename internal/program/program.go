// Package program is the one way in which the bridge starts programs: no other
// package of the binary imports os/exec. A Command says what will run; the same
// value is judged, shown and executed. The package knows no policy: its callers
// decide whether a command may run. They are the agents, workspace, sandbox,
// git and the other packages that start programs.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Place is where a program runs.
type Place struct {
	// Root is the workspace, or "". A program must not run in a directory
	// outside of it, and the environment must not lead into it; see Environ.
	Root string
	// Dir is absolute or relative to Root. Without either it is the bridge's
	// own directory.
	Dir string
	// Env is the user's environment.
	Env []string
	// Set are variables on top of Env chosen by others, such as a
	// file of the workspace. They are part of the command: see Line.
	Set []string
}

// Command is a program to run. New and Shell make it. The program runs in its
// own process group or, where the caller gives Trees, under a supervisor. That
// also finds what left the group, and outlives a killed bridge long enough to
// clean up.
type Command struct {
	Path string   // of the executable, absolute
	Args []string // the first is the name by which it was asked for
	Dir  string   // absolute and without links; "" is the bridge's own
	Env  []string // the whole environment

	before string // see Line
	script bool   // the last argument is the line
	made   bool
	outer  *Outer // see Within
}

// Outer is a program that starts another one with less around it, such as a
// sandbox.
type Outer struct {
	Path string   // absolute
	Args []string // those before the inner program's path
	// Complaint begins the first line that Outer writes to standard error when
	// it fails before the inner program runs. It ends with a code other than 0
	// then.
	Complaint string
	// Guards: Outer stays the inner program's parent, kills it when it goes
	// itself, and ends with its exit code (128 and the number of a signal).
	Guards bool
}

// Within is the same command, started by another program. The
// judged, shown and recorded command stays the same. An outer program that cannot
// start the inner one fails the command; it never runs by itself.
func (c Command) Within(o Outer) Command {
	c.outer = &o
	return c
}

// New returns the command that runs a program without a shell. A bare name is
// looked for on the PATH of the command's own environment, a relative path in
// its own directory.
func New(p Place, name string, args ...string) (Command, error) {
	at, env, err := p.prepare(slices.Concat([]string{name}, args))
	if err != nil {
		return Command{}, err
	}
	c := Command{Args: slices.Concat([]string{name}, args), Dir: at, Env: append(env, p.Set...), made: true}
	root := p.Root
	if Variable(p.Set, "PATH") != "" {
		root = "" // the guard sees that PATH
	}
	if strings.ContainsRune(name, '/') || filepath.Base(name) != name {
		c.Path, err = executable(absolute(name, at))
	} else {
		c.Path, err = find(name, c.Env, root)
	}
	if err != nil {
		return Command{}, notFound(name, err)
	}
	c.before = p.moved(at)
	for _, a := range assignments(p.Set) {
		c.before += a + " "
	}
	return c, nil
}

// Shell returns the command that runs a line in bash, which is the shell that
// lines are judged for. Where there is no bash nothing else takes its place.
func Shell(p Place, line string) (Command, error) {
	at, env, err := p.prepare([]string{line})
	if err != nil {
		return Command{}, err
	}
	bash, err := find("bash", env, p.Root)
	for _, usual := range []string{"/bin/bash", "/usr/bin/bash"} {
		if err != nil {
			bash, err = executable(usual)
		}
	}
	if err != nil {
		return Command{}, &bridge.Error{
			Code: bridge.CodeUnsupported, Message: "shell lines run in bash, which was not found",
			Remedy: "Install bash and see that it is on the PATH.", Cause: err,
		}
	}
	script := line
	if len(p.Set) > 0 {
		script = "export " + strings.Join(assignments(p.Set), " ") + " && " + script
	}
	// The directory and the variables are set by the script itself, so that
	// the text that is judged is the text that runs.
	script = p.moved(at) + script
	return Command{
		Path: bash, Args: []string{"bash", "--noprofile", "--norc", "-c", script}, Dir: at, Env: env, script: true, made: true,
	}, nil
}

// Line is the whole command as a line of bash: the directory, where it is not
// Root, the variables of Place.Set, and the program. This
// text is judged, shown and recorded.
func (c Command) Line() string {
	if c.script {
		return c.Args[len(c.Args)-1]
	}
	return c.before + words(c.Args)
}

// prepare checks what a command is made of, and returns the directory and the
// environment without Set.
func (p Place) prepare(given []string) (dir string, env []string, err error) {
	if given[0] == "" {
		return "", nil, invalid("no command was given", "Give a command.")
	}
	if slices.ContainsFunc(slices.Concat(given, p.Set), func(w string) bool { return strings.ContainsRune(w, 0) }) {
		return "", nil, invalid("the command has a NUL byte in it", "Remove the NUL byte.")
	}
	for _, kv := range p.Set {
		if !variable.MatchString(kv) {
			return "", nil, invalid(fmt.Sprintf("%q cannot be set as an environment variable", kv), "Use a name of letters, digits and underscores.")
		}
	}
	if dir, err = p.dir(); err != nil {
		return "", nil, err
	}
	env = slices.Clone(p.Env)
	if p.Root != "" {
		env = Environ(p.Env, p.Root)
	}
	if env == nil {
		env = []string{} // nil would be ours, with all that is in it
	}
	return dir, env, nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// dir is the directory with its links followed, which must not lead out of
// Root.
func (p Place) dir() (string, error) {
	dir := p.Dir
	if p.Root != "" {
		dir = absolute(p.Dir, p.Root)
	}
	if dir == "" {
		return "", nil
	}
	if !filepath.IsAbs(dir) {
		return "", invalid(fmt.Sprintf("the directory %q is not absolute", dir), "Give an absolute directory.")
	}
	at, err := filepath.EvalSymlinks(dir)
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(at); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no directory", at)
		}
	}
	if err != nil {
		return "", &bridge.Error{
			Code: bridge.CodeNotFound, Message: fmt.Sprintf("there is no directory %s to run in", dir),
			Remedy: "Correct the command's directory.", Cause: err,
		}
	}
	if p.Root != "" && !within(at, p.Root) {
		return "", &bridge.Error{
			Code: bridge.CodeDenied, Message: fmt.Sprintf("the directory %q leads out of the workspace", p.Dir),
			Remedy: "Name a directory inside the workspace, without links that lead out of it.",
		}
	}
	return at, nil
}

// moved is the beginning of a line for a directory that is not Root.
func (p Place) moved(dir string) string {
	if p.Root == "" || dir == resolved(p.Root) {
		return ""
	}
	return "cd " + Quote(dir) + " && "
}

func assignments(set []string) []string {
	out := make([]string, 0, len(set))
	for _, kv := range set {
		name, value, _ := strings.Cut(kv, "=")
		out = append(out, name+"="+Quote(value))
	}
	return out
}

// words are a program and its arguments as bash takes them.
func words(args []string) string {
	out := make([]string, len(args))
	for i, w := range args {
		out[i] = Quote(w)
	}
	if strings.Contains(args[0], "=") || slices.Contains(keywords, args[0]) {
		out[0] = "'" + args[0] + "'"
	}
	return strings.Join(out, " ")
}

// keywords are words that would not be taken as the name of a program.
var keywords = strings.Fields("if then else elif fi case esac for select while until do done in function time coproc let declare export local readonly typeset nameref")

// plain words mean themselves.
var plain = regexp.MustCompile(`^[A-Za-z0-9_+./,:@%-][A-Za-z0-9_+./,:@%=-]*$`)

// Quote makes one word of a shell.
func Quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func notFound(name string, cause error) error {
	return &bridge.Error{
		Code: bridge.CodeNotFound, Message: fmt.Sprintf("the program %q was not found", name),
		Remedy: "Install it, or see that it is on the PATH that commands run with.", Cause: cause,
	}
}

func invalid(message, remedy string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: message, Remedy: remedy}
}

// cmd is the command for os/exec.
func (c Command) cmd(s Streams) *exec.Cmd {
	cmd := &exec.Cmd{Path: c.Path, Args: slices.Clone(c.Args), Dir: c.Dir, Env: slices.Clone(c.Env)}
	if o := c.outer; o != nil {
		cmd.Path, cmd.Args = o.Path, slices.Concat([]string{o.Path}, o.Args, []string{c.Path}, c.Args[1:])
	}
	if s.In != nil { // a nil *os.File is no nil io.Reader
		cmd.Stdin = s.In
	}
	if s.Out != nil {
		cmd.Stdout = s.Out
	}
	if s.Err != nil {
		cmd.Stderr = s.Err
	}
	return cmd
}
