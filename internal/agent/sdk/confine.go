package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// updateWithin bounds how long the runtime may take to change its sandbox.
const updateWithin = 10 * time.Second

// confinement asks what holds for the session's programs; nil for nothing.
// Chats run none.
func (s *session) confinement(ctx context.Context) (*bridge.Confinement, error) {
	if s.Spec.Profile != bridge.ProfileAgent {
		return nil, nil
	}
	c := s.Spec.Confinement
	if g, ok := s.Spec.Gate.(bridge.Confiner); ok {
		var err error
		if c, err = g.Confinement(ctx); err != nil {
			return nil, err
		}
	}
	if c == nil {
		return nil, nil
	}
	return c, confinable(c, s.Spec.WorkingDir)
}

// confinable refuses what the runtime would pass over in silence.
func confinable(c *bridge.Confinement, dir string) error {
	for _, p := range slices.Concat(c.Write, c.Read, c.Hide) {
		if !filepath.IsAbs(p) {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: "the sandbox cannot hold the path " + p + ": it is not absolute"}
		}
	}
	at, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the sandbox needs the session's working directory", Cause: err}
	}
	if !slices.ContainsFunc(slices.Concat(c.Write, c.Read), func(p string) bool {
		rel, err := filepath.Rel(p, at)
		return err == nil && filepath.IsLocal(rel)
	}) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the working directory " + dir + " is not visible inside the sandbox",
			Remedy: "work in a directory of the workspace"}
	}
	for _, kv := range c.Env {
		if !variable.MatchString(kv) {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: "the sandbox cannot set the variable " + kv}
		}
	}
	return nil
}

var variable = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]*=[^\x00]*\z`)

// wall is a session's confinement as its runtime holds it. The zero value is
// none.
type wall struct {
	dir  string              // of the session alone; goes with the runtime at the latest
	base *bridge.Confinement // holds while nothing is granted
	told *bridge.Confinement // what the runtime was told last; nil if that is not known
}

func (s *session) confined() bool { return s.wall.dir != "" }

// prepareSandbox finds out how the session is to be confined, before it is opened.
// The runtime is told by applySandbox when it has it.
func (s *session) prepareSandbox(ctx context.Context) error {
	c, err := s.confinement(ctx)
	if err != nil || c == nil {
		return err
	}
	if err := s.proc.wrapBubblewrap(s.host.opts); err != nil {
		return err
	}
	s.wall.dir, err = os.MkdirTemp(s.proc.temp, "session-")
	if err == nil {
		err = os.Mkdir(s.wallTemp(), 0o700)
	}
	if err != nil {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "cannot make a directory for the session's sandbox", Cause: err,
			Remedy: "make sure that " + s.proc.temp + " can be written"}
	}
	s.wall.base = c
	return nil
}

// wallTemp is the temporary directory of the session's programs. That of the
// runtime is common to all of its sessions.
func (s *session) wallTemp() string { return filepath.Join(s.wall.dir, "tmp") }

func (s *session) wallEnv() string { return filepath.Join(s.wall.dir, "env.sh") }

// applySandbox has the runtime confine the session, if it is to be. Without that the
// session must not be used.
func (s *session) applySandbox(ctx context.Context) error {
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	if s.wall.base == nil {
		return nil
	}
	return s.setSandbox(ctx, s.wall.base)
}

// setSandbox makes a confinement the one that holds. A change ends the shells that
// run and starts MCP servers anew, so the same one is not told twice.
// grants.mu is held.
func (s *session) setSandbox(ctx context.Context, c *bridge.Confinement) error {
	if s.wall.told != nil && reflect.DeepEqual(s.wall.told, c) {
		return nil
	}
	s.wall.told = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), updateWithin)
	defer cancel()
	err := os.WriteFile(s.wallEnv(), s.shellEnv(c), 0o600)
	if err == nil {
		var res *rpc.SessionUpdateOptionsResult
		res, err = s.sdk.RPC.Options.Update(ctx, s.sandbox(c))
		if err == nil && (res == nil || !res.Success) {
			err = errors.New("the runtime refused it")
		}
	}
	if err != nil {
		if err = s.host.explain(err, "confine the session"); bridge.CodeOf(err) == bridge.CodeCrashed {
			return err
		}
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the sandbox of the session could not be set", Cause: err,
			Remedy: "run `copilot-bridge validate` to see which sandbox works here"}
	}
	s.wall.told = c
	return nil
}

// shellEnv is a script that sets variables in the runtime's shells. There is
// no other way to give them to one session.
func (s *session) shellEnv(c *bridge.Confinement) []byte {
	var b strings.Builder
	for _, kv := range append([]string{"TMPDIR=" + s.wallTemp()}, c.Env...) {
		name, value, _ := strings.Cut(kv, "=")
		fmt.Fprintf(&b, "export %s=%s\n", name, quoted(value))
	}
	return []byte(b.String())
}

// quoted is a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// sandbox is a confinement in the runtime's words. Nothing is left to its own
// judgement: it would let a command that names npm read the user's tokens.
func (s *session) sandbox(c *bridge.Confinement) *rpc.SessionUpdateOptionsParams {
	no, yes := copilot.Bool(false), copilot.Bool(true)
	shownRead, shownWrite := shown(c)
	read := append([]string{s.wallEnv()}, shownRead...)
	if rg := ripgrep(s.host.opts.Runtime); rg != "" {
		read = append(read, rg)
	}
	read = append(read, s.serverFiles()...)
	write := append([]string{s.wallTemp()}, shownWrite...)
	return &rpc.SessionUpdateOptionsParams{
		Shell: &rpc.ShellOptions{InitScripts: []rpc.ShellInitScript{{Path: s.wallEnv(), Shell: rpc.ShellInitScriptShellBash}}},
		SandboxConfig: &rpc.SandboxConfig{
			Enabled:                    true,
			AddCurrentWorkingDirectory: no,
			AllowBypass:                no,
			AllowDevToolAccess:         no,
			SandboxMCPServers:          copilot.Bool(s.bringsServers()),
			SandboxLspServers:          yes,
			UserPolicy: &rpc.SandboxConfigUserPolicy{
				Filesystem: &rpc.SandboxConfigUserPolicyFilesystem{
					ReadwritePaths: write,
					ReadonlyPaths:  read,
					// Other sessions have their files in the runtime's directory, which
					// the runtime shows by itself.
					DeniedPaths: append(denied(c.Hide, append(write, read...)), s.proc.temp),
				},
				// With hosts, the runtime lets programs reach nothing but its own
				// proxy, which lets those through.
				Network: &rpc.SandboxConfigUserPolicyNetwork{AllowOutbound: &c.Network, AllowLocalNetwork: &c.Network, AllowedHosts: c.Hosts},
			},
		},
	}
}

// shown are the paths to read and to write, each once. The runtime is not left to
// decide between two words about the same path.
func shown(c *bridge.Confinement) (read, write []string) {
	without := func(paths []string, others ...string) []string {
		return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(others, p) })
	}
	read = without(c.Read, c.Hide...)
	return read, without(c.Write, slices.Concat(c.Hide, c.Read)...)
}

// denied are the hidden paths as the runtime has to be told them: its view,
// create and edit take everything below a denied path for denied. So one that
// holds a shown path, as the bridge's home holds worktrees, is told as what else
// is in it. It can be left out where nothing shows it.
func denied(hidden, shown []string) (out []string) {
	for _, h := range hidden {
		below := func(p string) bool { return strings.HasPrefix(p, h+string(filepath.Separator)) }
		above := func(p string) bool { return strings.HasPrefix(h, p+string(filepath.Separator)) }
		switch {
		case !slices.ContainsFunc(shown, below):
			out = append(out, h)
		case slices.ContainsFunc(shown, above):
			entries, err := os.ReadDir(h)
			if err != nil { // hidden altogether
				out = append(out, h)
			}
			for _, e := range entries {
				if at := filepath.Join(h, e.Name()); !slices.Contains(shown, at) {
					out = append(out, denied([]string{at}, shown)...)
				}
			}
		}
	}
	return out
}

// bringsServers says whether a caller has given the session programs to use as
// MCP servers. The runtime confines all servers or none; the bridge's own and
// those of the user's Copilot could not work inside.
func (s *session) bringsServers() bool {
	for _, server := range s.Spec.MCPServers {
		if server.Command != "" && !server.Own {
			return true
		}
	}
	return false
}

// serverFiles are the programs and scripts of those servers, which may lie
// anywhere. The gate has judged them.
func (s *session) serverFiles() (out []string) {
	for _, server := range s.Spec.MCPServers {
		for _, word := range append([]string{server.Command}, server.Args...) {
			if !filepath.IsAbs(word) || server.Own {
				continue
			}
			at, err := filepath.EvalSymlinks(word)
			if info, failed := os.Stat(at); err == nil && failed == nil && info.Mode().IsRegular() {
				out = append(out, at)
			}
		}
	}
	slices.Sort(out)
	return out
}

// ripgrep is where the runtime has the program behind its grep and glob, which
// runs inside as well.
func ripgrep(runtime string) string {
	at, err := filepath.EvalSymlinks(runtime)
	if err != nil {
		return ""
	}
	at = filepath.Join(filepath.Dir(at), "..", "..", "ripgrep")
	if _, err := os.Stat(at); err != nil {
		return ""
	}
	return at
}

// removeSandboxDir removes the files of the session's sandbox.
func (s *session) removeSandboxDir() error {
	if !s.confined() {
		return nil
	}
	return os.RemoveAll(s.wall.dir)
}

// wrapperDir is where a process finds bubblewrap first.
func wrapperDir(temp string) string { return filepath.Join(temp, "bin") }

// wrapBubblewrap puts a program in front of bubblewrap that makes good what
// the runtime leaves out when it calls it: see wrapper.
func (p *process) wrapBubblewrap(o *Options) error {
	if runtime.GOOS == "darwin" {
		return nil // sandbox-exec is part of the system
	}
	if runtime.GOOS != "linux" {
		return &bridge.Error{Code: bridge.CodeUnsupported, Message: "there is no sandbox on this system yet", Remedy: "set `sandbox: off`"}
	}
	at, err := program.Find(cmp.Or(o.Bubblewrap, "bwrap"), o.Env)
	if err != nil {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the session cannot be confined: bubblewrap is not installed", Cause: err,
			Remedy: "install it (`apt install bubblewrap`, `dnf install bubblewrap`), or set `sandbox: off`"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrapped {
		return nil
	}
	dir := wrapperDir(p.temp)
	version, err := bubblewrapVersion(at, o.Env)
	if err != nil {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the session cannot be confined: bubblewrap does not run", Cause: err,
			Remedy: "run `copilot-bridge validate` to see why, or set `sandbox: off`"}
	}
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.WriteFile(filepath.Join(dir, "bwrap"), []byte(wrapper(at, version, dir)), 0o700)
	}
	if err != nil {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "cannot set up the sandbox", Cause: err,
			Remedy: "make sure that " + p.temp + " can be written and programs in it run"}
	}
	p.wrapped = true
	return nil
}

func bubblewrapVersion(at string, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), updateWithin)
	defer cancel()
	c, err := program.New(program.Place{Env: env}, at, "--version")
	if err != nil {
		return "", err
	}
	out := &program.Head{Limit: 1 << 10}
	exit, err := c.Run(ctx, program.RunOptions{Stdout: out})
	if err == nil {
		err = exit.Err()
	}
	return strings.TrimSpace(out.String()), err
}

// wrapper is the text of that program. The runtime asks for the version before
// every command, which need not start bubblewrap. Else it does four things:
//   - It drops all capabilities. As root, programs inside could otherwise
//     unmount what hides or protects a file.
//   - It makes the settings of the kernel read-only, which root could write
//     without any capability.
//   - It passes bubblewrap's options in a file. The runtime puts the whole
//     environment on the command line, where every user of the machine can read
//     it while the program runs.
//   - It ends with status 125 and a message if the sandbox cannot be set up.
//     Bubblewrap ends with 1, like a grep that finds nothing.
func wrapper(bwrap, version, dir string) string {
	return `#!/bin/sh
case $1 in
--version) echo ` + quoted(version) + `; exit ;;
--) ;;
*)
	umask 077
	base=` + quoted(dir) + `/$$
	{
		printf '%s\0' --cap-drop ALL --new-session
		while [ $# -gt 0 ] && [ "$1" != -- ]; do printf '%s\0' "$1"; shift; done
		printf '%s\0' --ro-bind /proc/sys /proc/sys
	} > "$base.options"
	exec 9< "$base.options" 8> "$base.status" 7< "$base.status"
	rm -f "$base.options" "$base.status" &
	exec "$0" "$@" ;;
esac
` + quoted(bwrap) + ` --json-status-fd 8 --args 9 "$@" 7<&-
code=$?
[ $code = 0 ] && exit 0
while read -r line <&7; do
	case $line in *exit-code*) exit $code ;; esac
done
echo '` + sandboxFailed + `' >&2
exit 125
`
}

const (
	// sandboxFailed is what the wrapper prints if a program was not started.
	sandboxFailed = "copilot-bridge: the sandbox failed"
	// backendFailed begins what the runtime gives as the output of a command
	// for which it did not even start bubblewrap.
	backendFailed = "<error: GenericFailure, "
)

// failed turns the result of a shell whose command was not started into a
// failure with the reason. The runtime takes that for the command's output.
func failed(tool string, result any) any {
	m, _ := result.(map[string]any)
	text, _ := m["textResultForLlm"].(string)
	reason, _, found := strings.Cut(text, sandboxFailed)
	if found = found && strings.Contains(text, "exit code 125>"); !found {
		reason, found = strings.CutPrefix(text, backendFailed)
		reason, _, _ = strings.Cut(reason, ">\n")
	}
	if !found || tool != "bash" && tool != "read_bash" {
		return result
	}
	text = "Nothing was run, because the sandbox failed: " + strings.TrimRight(reason, ".\r\n") +
		". This cannot be mended from inside. The user can see what is wrong with `copilot-bridge validate`."
	return map[string]any{"textResultForLlm": text, "resultType": "failure", "error": text, "sessionLog": text}
}
