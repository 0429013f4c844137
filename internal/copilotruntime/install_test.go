package copilotruntime_test

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

func TestInstallFetchesWhatFindThenFinds(t *testing.T) {
	options := copilotruntime.Options{Home: filepath.Join(t.TempDir(), "home")}
	var steps []copilotruntime.Step
	installed, err := copilotruntime.Install(t.Context(), options, func(s copilotruntime.Step) { steps = append(steps, s) })
	if err != nil {
		t.Fatal(err)
	}
	found, err := copilotruntime.Find(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if found != installed {
		t.Errorf("Find returned %+v, Install %+v", found, installed)
	}
	wantDir := filepath.Join(options.Home, "runtime", copilotruntime.RuntimeVersion)
	if found.Source != copilotruntime.SourceInstalled || !found.Native || found.Dir != wantDir ||
		!strings.HasPrefix(found.Path, wantDir+string(filepath.Separator)) {
		t.Errorf("Find returned %+v", found)
	}
	status, err := copilotruntime.Check(t.Context(), found.Path)
	if err != nil {
		t.Fatal(err)
	}
	if status.Version != found.Version || status.Protocol != copilotruntime.Protocol {
		t.Errorf("the runtime reports %+v, the install says %q", status, found.Version)
	}
	checkSteps(t, steps)
	checkNoStaging(t, options.Home)

	// npm has it now, and does not ask the registry again. Settings of npm that
	// would break an install are overruled.
	t.Setenv("npm_config_offline", "true")
	t.Setenv("npm_config_global", "true")
	t.Setenv("npm_config_package_lock", "false")
	t.Setenv("npm_config_dry_run", "true")
	t.Setenv("npm_config_install_strategy", "linked")
	if _, err := copilotruntime.Install(t.Context(), copilotruntime.Options{Home: t.TempDir()}, nil); err != nil {
		t.Error(err)
	}

	// A second Install has nothing to do, for which it needs no npm.
	t.Setenv("PATH", t.TempDir())
	again, err := copilotruntime.Install(t.Context(), options, nil)
	if err != nil || again != installed {
		t.Errorf("second Install: %+v, %v", again, err)
	}
}

func checkSteps(t *testing.T, steps []copilotruntime.Step) {
	t.Helper()
	if len(steps) < 3 {
		t.Fatalf("only %d steps: %+v", len(steps), steps)
	}
	var last int64
	for _, s := range steps {
		if s.Total == 0 {
			continue
		}
		if s.Done < last || s.Done > s.Total {
			t.Errorf("step %+v after %d bytes", s, last)
		}
		last = s.Done
	}
	if steps[0].Total == 0 || last == 0 {
		t.Errorf("no growth was reported: %+v", steps)
	}
}

func checkNoStaging(t *testing.T, home string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(home, "*", ".staging-*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// wrapNPM puts a script before npm in which REAL stands for what the real one
// does: the same files appear, without fetching and unpacking them each time.
func wrapNPM(t *testing.T, script string) {
	t.Helper()
	modules, _, ok := strings.Cut(runtimetest.Path(t), "/node_modules/")
	if !ok {
		t.Fatal("the runtime was not installed by npm")
	}
	dir := t.TempDir()
	writeScript(t, filepath.Join(dir, "npm"), strings.ReplaceAll(script, "REAL", "cp -R '"+modules+"/node_modules' ."))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// lingering is an npm that does its work, says so in a file, and stays.
const lingering = "REAL\ntouch started\nexec sleep 600\n"

// countNPM has npm wait for the file named gate and counts its runs.
func countNPM(t *testing.T) (gate string, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	gate, log := filepath.Join(dir, "gate"), filepath.Join(dir, "runs")
	wrapNPM(t, "echo run >>'"+log+"'\nuntil [ -e '"+gate+"' ]; do sleep 0.01; done\nREAL\n")
	return gate, func() int {
		data, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Count(string(data), "run\n")
	}
}

// openOnce returns a function that makes the file gate when the text is that
// of an install which waits for another.
func openOnce(t *testing.T, gate string) func(text string) {
	t.Helper()
	return func(text string) {
		if !strings.Contains(text, "waiting for it") {
			return
		}
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

func writeScript(t *testing.T, path, body string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstallsInOneProcessShareTheWork(t *testing.T) {
	gate, runs := countNPM(t)
	open := openOnce(t, gate)
	options := copilotruntime.Options{Home: t.TempDir()}
	var waiting sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		waiting.Go(func() {
			_, errs[i] = copilotruntime.Install(t.Context(), options, func(s copilotruntime.Step) { open(s.Text) })
		})
	}
	waiting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := runs(); n != 1 {
		t.Errorf("npm ran %d times", n)
	}
}

func TestInstallsInTwoProcessesShareTheWork(t *testing.T) {
	gate, runs := countNPM(t)
	open := openOnce(t, gate)
	home := t.TempDir()
	var waiting sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		waiting.Go(func() { errs[i] = runChild(t.Context(), home, open) })
	}
	waiting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := runs(); n != 1 {
		t.Errorf("npm ran %d times", n)
	}
	if _, err := copilotruntime.Find(t.Context(), copilotruntime.Options{Home: home}); err != nil {
		t.Error(err)
	}
}

// runChild installs in a child process and passes its steps on.
func runChild(ctx context.Context, home string, step func(text string)) error {
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), childHome+"="+home)
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		step(lines.Text())
	}
	return errors.Join(lines.Err(), child.Wait())
}

func TestCanceledInstallLeavesNothing(t *testing.T) {
	options := copilotruntime.Options{Home: t.TempDir()}
	wrapNPM(t, lingering)
	checkCanceledInstall(t, options.Home)
	checkNothingFound(t, options)
	wrapNPM(t, "REAL\n")
	if _, err := copilotruntime.Install(t.Context(), options, nil); err != nil {
		t.Errorf("the next install: %v", err)
	}
}

// checkNothingFound hides the machine's own copilot, if it has one, behind
// one that does not work.
func checkNothingFound(t *testing.T, options copilotruntime.Options) {
	t.Helper()
	dir := t.TempDir()
	writeScript(t, filepath.Join(dir, "copilot"), "exit 1\n")
	path := os.Getenv("PATH")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+path)
	rt, err := copilotruntime.Find(t.Context(), options)
	if bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Errorf("Find returned %+v, %v", rt, err)
	}
	t.Setenv("PATH", path)
}

func TestInstallWithoutNPMSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := copilotruntime.Install(t.Context(), copilotruntime.Options{Home: t.TempDir()}, nil)
	wantError(t, err, bridge.CodeUnavailable, "npm was not found", "Install Node.js")
}

func TestInstallWithoutPackageSaysWhatToDo(t *testing.T) {
	t.Setenv("npm_config_cache", t.TempDir())
	t.Setenv("npm_config_offline", "true")
	home := t.TempDir()
	_, err := copilotruntime.Install(t.Context(), copilotruntime.Options{Home: home}, nil)
	wantError(t, err, bridge.CodeUnavailable, "npm could not install @github/copilot-sdk-", "offline")
	checkNoStaging(t, home)
}

func wantError(t *testing.T, err error, code bridge.Code, message, remedy string) {
	t.Helper()
	var e *bridge.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, which is no *bridge.Error", err)
	}
	if e.Code != code || !strings.Contains(e.Message, message) || !strings.Contains(e.Remedy, remedy) {
		t.Errorf("got code %q, message %q, remedy %q\nwant code %q, message with %q, remedy with %q",
			e.Code, e.Message, e.Remedy, code, message, remedy)
	}
}

func TestInstallReplacesADamagedInstall(t *testing.T) {
	wrapNPM(t, "REAL\n")
	options := copilotruntime.Options{Home: t.TempDir()}
	rt, err := copilotruntime.Install(t.Context(), options, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(rt.Path, 100); err != nil {
		t.Fatal(err)
	}
	checkNothingFound(t, options)
	again, err := copilotruntime.Ensure(t.Context(), options, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := copilotruntime.Check(t.Context(), again.Path); err != nil {
		t.Error(err)
	}
	checkNoStaging(t, options.Home)
}

func TestInstallCLI(t *testing.T) {
	home, _, ok := strings.Cut(runtimetest.CLIPath(t), "/cli/") // installed once a machine
	if !ok {
		t.Fatal("the CLI is not where it is installed")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // the CLI unpacks itself there
	options := copilotruntime.Options{Home: home}
	installed, err := copilotruntime.InstallCLI(t.Context(), options, nil)
	if err != nil {
		t.Fatal(err)
	}
	found, err := copilotruntime.FindCLI(t.Context(), options)
	if err != nil || found != installed {
		t.Errorf("FindCLI returned %+v, %v, InstallCLI %+v", found, err, installed)
	}
	if found.Version != copilotruntime.CLIVersion || found.Native || found.Source != copilotruntime.SourceInstalled {
		t.Errorf("FindCLI returned %+v", found)
	}

	// The CLI serves as a runtime too, by name and on PATH.
	named := copilotruntime.Options{Home: t.TempDir(), CLIPath: found.Path}
	for name, find := range map[string]func(context.Context, copilotruntime.Options) (copilotruntime.Runtime, error){
		"Find": copilotruntime.Find, "FindCLI": copilotruntime.FindCLI,
	} {
		rt, err := find(t.Context(), named)
		if err != nil || rt.Source != copilotruntime.SourceEnv || rt.Native || rt.Version != copilotruntime.CLIVersion {
			t.Errorf("%s of the CLI by name: %+v, %v", name, rt, err)
		}
	}
	t.Setenv("PATH", filepath.Dir(found.Path))
	rt, err := copilotruntime.Find(t.Context(), copilotruntime.Options{Home: t.TempDir()})
	if err != nil || rt.Source != copilotruntime.SourcePATH || rt.Path != found.Path {
		t.Errorf("Find of the CLI on PATH: %+v, %v", rt, err)
	}
}

// checkCanceledInstall cancels an install once its npm has made a file
// "started".
func checkCanceledInstall(t *testing.T, home string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := copilotruntime.Install(ctx, copilotruntime.Options{Home: home}, func(copilotruntime.Step) {
		if started, err := filepath.Glob(filepath.Join(home, "runtime", ".staging-*", "started")); err == nil && len(started) > 0 {
			cancel()
		}
	})
	if bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Fatalf("got %v", err)
	}
	checkNoStaging(t, home)
}
