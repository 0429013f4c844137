package copilotruntime_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// homeOf returns the bridge's home in which the runtime at path is installed.
func homeOf(path string) string {
	home, _, _ := strings.Cut(path, string(filepath.Separator)+"runtime"+string(filepath.Separator))
	return home
}

func wantNoSecret(t *testing.T, envFile string) {
	t.Helper()
	data, err := os.ReadFile(envFile)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "PATH=") {
		t.Fatalf("that is no environment: %q", data)
	}
	if strings.Contains(string(data), "s3cret-value") {
		t.Errorf("a secret was passed on:\n%s", data)
	}
}

func TestFindPrefersTheNamedProgram(t *testing.T) {
	path := runtimetest.Path(t)
	rt, err := copilotruntime.Find(t.Context(), copilotruntime.Options{Home: homeOf(path), CLIPath: path})
	if err != nil {
		t.Fatal(err)
	}
	if rt.Path != path || rt.Source != copilotruntime.SourceEnv || !rt.Native || rt.Version == "" {
		t.Errorf("got %+v", rt)
	}
}

func TestFindTakesABareNameFromPATH(t *testing.T) {
	path := runtimetest.Path(t)
	t.Setenv("PATH", filepath.Dir(path))
	rt, err := copilotruntime.Find(t.Context(), copilotruntime.Options{Home: t.TempDir(), CLIPath: filepath.Base(path)})
	if err != nil {
		t.Fatal(err)
	}
	if rt.Path != path {
		t.Errorf("got %+v", rt)
	}
}

func TestFindFollowsLinksToTheNativeRuntime(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(runtimetest.Path(t), filepath.Join(dir, "copilot")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	rt, err := copilotruntime.Find(t.Context(), copilotruntime.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if rt.Source != copilotruntime.SourcePATH || !rt.Native {
		t.Errorf("got %+v", rt)
	}
}

func TestFindWithNothingThereSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	options := copilotruntime.Options{Home: t.TempDir()}
	_, err := copilotruntime.Find(t.Context(), options)
	wantError(t, err, bridge.CodeNotFound, "no Copilot runtime was found", "Run `copilot-bridge setup`.")
	_, err = copilotruntime.FindCLI(t.Context(), options)
	wantError(t, err, bridge.CodeNotFound, "no Copilot CLI was found", "Run `copilot-bridge setup --acp`.")
	_, err = copilotruntime.Find(t.Context(), copilotruntime.Options{})
	wantError(t, err, bridge.CodeInvalid, "home directory", "COPILOT_BRIDGE_HOME")
}

// Another product's program of the same name is passed over, and named.
func TestFindPassesOverAnotherCopilot(t *testing.T) {
	dir := t.TempDir()
	path := writeScript(t, filepath.Join(dir, "copilot"),
		"if [ \"$1\" = --version ]; then echo 'copilot version: v1.34.0'; exit 0; fi\necho 'unknown flag' >&2\nexit 1\n")
	t.Setenv("PATH", dir)
	options := copilotruntime.Options{Home: t.TempDir()}
	_, err := copilotruntime.Find(t.Context(), options)
	wantError(t, err, bridge.CodeNotFound, path, "copilot-bridge setup")
	_, err = copilotruntime.FindCLI(t.Context(), options)
	wantError(t, err, bridge.CodeNotFound, "it is not GitHub's Copilot CLI", "copilot-bridge setup --acp")
}

// A COPILOT_CLI_PATH that is right for the runtime is no error for the CLI.
func TestFindCLIPassesOverTheNativeRuntime(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	options := copilotruntime.Options{Home: t.TempDir(), CLIPath: runtimetest.Path(t)}
	_, err := copilotruntime.FindCLI(t.Context(), options)
	wantError(t, err, bridge.CodeNotFound, "no Copilot CLI was found", "setup --acp")

	options.CLIPath = filepath.Join(options.Home, "missing")
	_, err = copilotruntime.FindCLI(t.Context(), options)
	wantError(t, err, bridge.CodeUnavailable, "there is no such file", "COPILOT_CLI_PATH")
}

func BenchmarkFindInstalled(b *testing.B) {
	options := copilotruntime.Options{Home: homeOf(runtimetest.Path(b))}
	for b.Loop() {
		if _, err := copilotruntime.Find(b.Context(), options); err != nil {
			b.Fatal(err)
		}
	}
}
