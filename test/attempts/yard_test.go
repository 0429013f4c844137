//go:build unix

package attempts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/guardtest"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// Where the tables are; the guard's own tests run them too.
const (
	attemptsFile = "../../internal/guard/testdata/attempts.yaml"
	ordinaryFile = "../../internal/guard/testdata/ordinary.yaml"
	policyFile   = "../../internal/guard/testdata/policy.yaml"
)

// yard is where one door is tried: the workspace of the tables, a home with
// the trusted policy, and a model whose every request is looked at.
type yard struct {
	*guardtest.Yard
	model    *rehearsal.Server
	modelURL string
	env      []string
	start    state
	targets  []string // of attempts, which may be anywhere
	// worktrees: git's own files change, because it makes worktrees.
	worktrees bool
	said      *output // all that the door gave back, and the program wrote

	mu      sync.Mutex
	scripts map[string]*script
	leaked  map[string]string // canaries that reached the model, and what was around them
	heard   int               // requests that the model got
}

func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{Yard: guardtest.New(t), model: rehearsal.New(rehearsal.WithJournal(0)), said: &output{}, scripts: map[string]*script{}, leaked: map[string]string{}}
	rules, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	y.Write(t, "home/policy.yaml", string(rules))
	for _, d := range []string{"user", "tmp"} {
		if err := os.Mkdir(filepath.Join(y.Root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range guardtest.Cases(t, attemptsFile) {
		if name, ok := y.Fill(t, c.Args)["path"].(string); ok && filepath.IsAbs(name) && !strings.HasPrefix(name, "/proc/") {
			y.targets = append(y.targets, filepath.Clean(name))
		}
	}
	y.starts(t)
	y.model.Handle(y.answer)
	if err := y.model.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	y.env = []string{"PATH=" + os.Getenv("PATH"), "TERM=dumb", "HOME=" + y.user(), "TMPDIR=" + filepath.Join(y.Root, "tmp"),
		"COPILOT_BRIDGE_HOME=" + y.Home, "COPILOT_CLI_PATH=" + runtimetest.Path(t), "OPENCLAW_PORT=1", // where nobody listens
		"GOCACHE=" + goCache(t), "GOPROXY=off", "GOTOOLCHAIN=local", "npm_config_update_notifier=false"}
	y.modelURL = relay(t, y.model.URL())
	t.Cleanup(func() {
		if err := y.model.Close(); err != nil {
			t.Errorf("closing the model: %v", err)
		}
		y.alone(t)
	})
	return y
}

// starts takes down what everything is like before the attempts.
func (y *yard) starts(t *testing.T) {
	t.Helper()
	var err error
	if y.start, err = y.look(); err != nil {
		t.Fatal(err)
	}
}

// changed lists what has changed since.
func (y *yard) changed(t *testing.T) []string {
	t.Helper()
	now, err := y.look()
	if err != nil {
		t.Fatal(err)
	}
	return y.start.changes(now)
}

// user is the home directory of whoever runs the program.
func (y *yard) user() string { return filepath.Join(y.Root, "user") }

// provided is the environment of a program that asks the yard's model.
func (y *yard) provided() []string {
	return append(slices.Clone(y.env), "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+y.modelURL,
		"COPILOT_BYOK_API_KEY="+y.model.Key(), "COPILOT_BYOK_MODEL="+y.model.Model())
}

// goCache keeps the go commands of the tables quick.
var goCache = func() func(t *testing.T) string {
	find := sync.OnceValues(func() ([]byte, error) { return exec.Command("go", "env", "GOCACHE").Output() })
	return func(t *testing.T) string {
		t.Helper()
		out, err := find()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
}()

// program is a running copilot-bridge.
func (y *yard) program(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = y.Workspace, env, y.said, 10*time.Second
	return cmd
}

// hears looks for canaries in what the model is sent.
func (y *yard) hears(r *rehearsal.Request) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.heard++
	if !bytes.Contains(r.Raw, []byte(canaryStem)) && !bytes.Contains(r.Raw, []byte("ghp_")) {
		return
	}
	for _, at := range canaries.FindAllIndex(r.Raw, -1) {
		y.leaked[string(r.Raw[at[0]:at[1]])] = string(r.Raw[max(0, at[0]-80):at[0]])
	}
}

// canaryStem is what all canaries have in common. It is not in the tables,
// which search for less.
const canaryStem = guardtest.Canary

var canaries = regexp.MustCompile(canaryStem + `[\w-]*|ghp_0123456789\w*`)

// state is what must stay as it is: path → kind and content.
type state map[string]string

// look takes down everything outside the workspace, the workspace itself, and
// what the bridge's home holds of policy and trust. What the program and the
// tools of the tables keep for themselves is left out.
func (y *yard) look() (state, error) {
	s := state{}
	err := filepath.WalkDir(y.Root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(y.Root, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while this looked
		}
		if err != nil {
			return err
		}
		hidden := filepath.Dir(name) == "user" && strings.HasPrefix(d.Name(), ".")
		switch {
		case name == "tmp" || hidden:
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case filepath.Dir(name) == "home" && d.IsDir():
			return fs.SkipDir
		case filepath.Dir(name) == "home" && d.Name() != "policy.yaml" && d.Name() != "trust.json":
			return nil
		case name == "work/.git/index":
			return nil // git status writes it anew
		case y.worktrees && filepath.Dir(name) == "work/.git" && d.Name() != "config" && d.Name() != "hooks":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		s[name], err = describe(path, d)
		return err
	})
	for _, name := range y.targets {
		if info, missing := os.Lstat(name); missing == nil && !strings.HasPrefix(name, y.Root+"/") {
			text, unread := describe(name, fs.FileInfoToDirEntry(info))
			s[name], err = text, errors.Join(err, unread)
		}
	}
	return s, err
}

func describe(path string, d fs.DirEntry) (string, error) {
	switch {
	case d.IsDir():
		return "directory", nil
	case d.Type()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		return "link to " + to, err
	case !d.Type().IsRegular():
		return d.Type().String(), nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "gone", nil
	}
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}

// changes lists what differs.
func (s state) changes(now state) []string {
	var out []string
	for name, is := range now {
		if was, known := s[name]; !known {
			out = append(out, "made "+name)
		} else if was != is {
			out = append(out, "changed "+name)
		}
	}
	for name := range s {
		if _, there := now[name]; !there {
			out = append(out, "removed "+name)
		}
	}
	slices.Sort(out)
	return out
}

// noCanary checks what the model, the client and the records got.
func (y *yard) noCanary(t *testing.T) {
	t.Helper()
	y.mu.Lock()
	for canary, after := range y.leaked {
		t.Errorf("%s reached the model after %q", canary, after)
	}
	y.mu.Unlock()
	if text := y.said.String(); strings.Contains(text, canaryStem) {
		at := strings.Index(text, canaryStem)
		t.Errorf("the door gave a canary away: …%s…", text[max(0, at-200):min(len(text), at+80)])
	}
	err := filepath.WalkDir(y.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(canaryStem)) {
			t.Errorf("a canary is on record in %s", strings.TrimPrefix(path, y.Root))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// alone waits until no process of this yard is left.
func (y *yard) alone(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return // nowhere else can another process's environment be read
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		left := y.processes(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("processes are left: %q", left)
			return
		}
	}
}

func (y *yard) processes(t *testing.T) []string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		env, err := os.ReadFile(e + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00HOME="+y.user()+"\x00")) {
			continue
		}
		if line, err := os.ReadFile(e + "/cmdline"); err == nil && len(line) > 0 { // a zombie has none
			found = append(found, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
		}
	}
	return found
}

// output can be read while it grows.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
