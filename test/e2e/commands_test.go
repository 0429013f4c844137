package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// exits CODE PROGRAM ARGS… runs a program and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if want, err := strconv.Atoi(args[0]); err != nil || code != want {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// jsonlines FILE TYPE… checks that a file (or stdout) has only JSON lines with
// events, that it ends with a result, and that events of these types appear in
// this order, possibly with others in between.
func jsonLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: jsonlines FILE TYPE…")
	}
	text := ts.ReadFile(args[0])
	if !strings.HasSuffix(text, "\n") {
		ts.Fatalf("the last line is not ended")
	}
	wanted := args[1:]
	last := ""
	for line := range strings.Lines(text) {
		if !json.Valid(bytes.TrimSpace([]byte(line))) {
			ts.Fatalf("not JSON: %s", line)
		}
		if _, err := bridge.DecodeEvent([]byte(line)); err != nil {
			ts.Fatalf("%v: %s", err, line)
		}
		var head struct {
			Type string `json:"type"`
		}
		ts.Check(json.Unmarshal([]byte(line), &head))
		last = head.Type
		if len(wanted) > 0 && wanted[0] == last {
			wanted = wanted[1:]
		}
	}
	if last != "result" {
		ts.Fatalf("the last line is of type %q", last)
	}
	if len(wanted) > 0 {
		ts.Fatalf("there is no %s event where one should be", wanted[0])
	}
}

// newest FILE NAME sets a variable to the ID of the first session in a list.
func newest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: newest FILE NAME")
	}
	var list []struct {
		ID string `json:"id"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &list))
	if len(list) == 0 {
		ts.Fatalf("the list is empty")
	}
	ts.Setenv(args[1], list[0].ID)
}

// tamper changes one word in the middle of the audit log.
func tamper(ts *testscript.TestScript, _ bool, _ []string) {
	files, err := filepath.Glob(filepath.Join(ts.Getenv("COPILOT_BRIDGE_HOME"), "audit", "audit-*.jsonl"))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("there is no audit log")
	}
	b, err := os.ReadFile(files[0])
	ts.Check(err)
	ts.Check(os.WriteFile(files[0], []byte(strings.Replace(string(b), `"decision":"deny"`, `"decision":"allow"`, 1)), 0o600))
}

// expand TEMPLATE FILE writes a file with the template's variables replaced.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: expand TEMPLATE FILE")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}
