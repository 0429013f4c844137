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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// The tables of cases. The tests of the guard use them, too.
const (
	attemptsFile = "../../internal/guard/testdata/attempts.yaml"
	ordinaryFile = "../../internal/guard/testdata/ordinary.yaml"
	policyFile   = "../../internal/guard/testdata/policy.yaml"
)

// testEnv is the environment for one door: the workspace of the tables, a home
// with the trusted policy, and a model that checks every request.
type testEnv struct {
	*guardtest.Yard
	model    *demomodel.Server
	modelURL string
	env      []string
	start    state
	targets  []string // paths of the attempts, anywhere on the machine
	// worktrees: the files in .git change, because the door creates worktrees.
	worktrees bool
	output    *programtest.Output // everything that the door returned and the program printed
	binary    string              // the program under test
	inherits  []*os.File

	mu       sync.Mutex
	scripts  map[string]*script
	leaked   map[string]string // canaries that reached the model, with the text before them
	requests int               // number of requests to the model
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	y := &testEnv{Yard: guardtest.New(t), binary: binary, model: demomodel.New(demomodel.WithJournal(0)), output: &programtest.Output{}, scripts: map[string]*script{}, leaked: map[string]string{}}
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
	y.recordState(t)
	y.model.Handle(y.answer)
	if err := y.model.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	y.env = []string{"PATH=" + os.Getenv("PATH"), "TERM=dumb", "HOME=" + y.userHome(), "TMPDIR=" + filepath.Join(y.Root, "tmp"),
		"COPILOT_BRIDGE_HOME=" + y.Home, "COPILOT_CLI_PATH=" + runtimetest.Path(t), "OPENCLAW_PORT=1", // no server listens there
		"GOCACHE=" + goCache(t), "GOPROXY=off", "GOTOOLCHAIN=local", "npm_config_update_notifier=false"}
	y.modelURL = relay(t, y.model.URL())
	t.Cleanup(func() {
		if err := y.model.Close(); err != nil {
			t.Errorf("closing the model: %v", err)
		}
		programtest.NoneLeft(t, y.userHome())
	})
	return y
}

// recordState records the state of all files before the attempts.
func (y *testEnv) recordState(t *testing.T) {
	t.Helper()
	var err error
	if y.start, err = y.snapshot(); err != nil {
		t.Fatal(err)
	}
}

// changedFiles lists the changes since recordState.
func (y *testEnv) changedFiles(t *testing.T) []string {
	t.Helper()
	now, err := y.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return y.start.changes(now)
}

// userHome is the home directory of the user who runs the program.
func (y *testEnv) userHome() string { return filepath.Join(y.Root, "user") }

// envWithModel is the environment of a program that uses the test model.
func (y *testEnv) envWithModel() []string {
	return append(slices.Clone(y.env), "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+y.modelURL,
		"COPILOT_BYOK_API_KEY="+y.model.Key(), "COPILOT_BYOK_MODEL="+y.model.Model())
}

// goCache returns the user's build cache, which makes go commands of the tables
// fast.
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

// program prepares a copilot-bridge command.
func (y *testEnv) program(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(y.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = y.Workspace, env, y.output, 10*time.Second
	cmd.ExtraFiles = y.inherits
	return cmd
}

// checkForCanaries looks for canaries in a request to the model.
func (y *testEnv) checkForCanaries(r *demomodel.Request) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.requests++
	if !bytes.Contains(r.Raw, []byte(canaryStem)) && !bytes.Contains(r.Raw, []byte("ghp_")) {
		return
	}
	for _, at := range canaries.FindAllIndex(r.Raw, -1) {
		y.leaked[string(r.Raw[at[0]:at[1]])] = string(r.Raw[max(0, at[0]-80):at[0]])
	}
}

// canaryStem is the common prefix of all canaries. The tables search for
// shorter strings, so it does not appear in them.
const canaryStem = guardtest.Canary

var canaries = regexp.MustCompile(canaryStem + `[\w-]*|ghp_0123456789\w*`)

// state is everything that must not change: path → kind and content.
type state map[string]string

// snapshot records everything outside the workspace, the workspace itself, and
// policy and trust in the bridge's home. Files that the program and the tools
// of the tables keep for themselves are left out.
func (y *testEnv) snapshot() (state, error) {
	s := state{}
	err := filepath.WalkDir(y.Root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(y.Root, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
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
			return nil // git status rewrites it
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

// changes lists the differences.
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

// checkNoCanary checks that no canary reached the model, the client or the
// records.
func (y *testEnv) checkNoCanary(t *testing.T) {
	t.Helper()
	y.mu.Lock()
	for canary, after := range y.leaked {
		t.Errorf("%s reached the model after %q", canary, after)
	}
	y.mu.Unlock()
	if text := y.output.String(); strings.Contains(text, canaryStem) {
		at := strings.Index(text, canaryStem)
		t.Errorf("the door leaked a canary: …%s…", text[max(0, at-200):min(len(text), at+80)])
	}
	err := filepath.WalkDir(y.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(canaryStem)) {
			t.Errorf("a canary is recorded in %s", strings.TrimPrefix(path, y.Root))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
