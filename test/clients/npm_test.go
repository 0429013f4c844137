package clients

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const token = "a-token-of-these-tests"

// smallLimits are settings with small limits, so that refusals are quick to
// provoke.
var smallLimits = []string{
	"COPILOT_BRIDGE_TOKEN=" + token, "COPILOT_BRIDGE_MAX_CONCURRENT=1", "COPILOT_BRIDGE_QUEUE_LIMIT=0", "COPILOT_MAX_RETRIES=0",
}

// TestNPM runs the checks in npm/*.test.mjs. Each file describes what it
// checks.
func TestNPM(t *testing.T) {
	open, closed := serve(t, "COPILOT_BRIDGE_UNKNOWN_MODEL=error"), serve(t, smallLimits...)
	runScripts(t, "*", "", open, closed)
}

// runScripts runs the scripts whose names match, and of them the checks whose
// names match an expression, with two bridges: one without limits, and one with
// smallLimits.
func runScripts(t *testing.T, pattern, checks string, open, closed *served) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(modules(t, "npm"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("npm", "*.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	var scripts []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(script, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if ok, _ := filepath.Match(pattern+".test.mjs", filepath.Base(script)); ok {
			scripts = append(scripts, script)
		}
	}
	if len(scripts) == 0 {
		t.Fatal("there are no scripts")
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BRIDGE=" + open.url, "STRICT=" + closed.url, "TOKEN=" + token, "MODEL=" + open.model.Model(), "CHECKS=" + checks}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".test.mjs"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			var out bytes.Buffer
			cmd := exec.CommandContext(ctx, "node", "--test-reporter=tap", script)
			cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &out
			failed := cmd.Run()
			results := tap.FindAllStringSubmatch(out.String(), -1)
			for _, c := range results {
				t.Run(c[2], func(t *testing.T) {
					if c[1] != "" {
						t.Error("not ok; the output is below")
					}
				})
			}
			if failed != nil || len(results) == 0 {
				t.Errorf("%v\n%s", failed, out.String())
			}
		})
	}
}

// tap matches a line of the Test Anything Protocol.
var tap = regexp.MustCompile(`(?m)^(not )?ok \d+ - (.*)$`)
