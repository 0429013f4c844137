package audit

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary runs itself again as a child; these variables tell the
// child what to be and where.
const (
	childRole = "AUDIT_TEST_ROLE"
	childDir  = "AUDIT_TEST_DIR"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := runChild(role, os.Getenv(childDir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func runChild(role, dir string) error {
	switch role {
	case "append":
		return appendMany(dir, 100, Options{Redact: plain})
	case "append-forever":
		return appendMany(dir, 1<<30, Options{Redact: plain})
	case "segments-forever":
		return appendMany(dir, 1<<30, Options{Redact: plain, Witness: dir + "-witness.json", segmentSize: 4000})
	case "prune-forever":
		return appendMany(dir, 1<<30, Options{Redact: plain, Witness: dir + "-witness.json", segmentSize: 4000, Keep: time.Nanosecond})
	}
	return runPlatformChild(role, dir)
}

// appendMany tells on stdout the number of each entry that was acknowledged.
func appendMany(dir string, n int, opts Options) error {
	l, err := Open(dir, opts)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for i := range n {
		e := Entry{Hook: HookPreTool, Session: strconv.Itoa(os.Getpid()), Call: strconv.Itoa(i), Input: strings.Repeat("x", 3000)}
		if err := l.Append(context.Background(), e); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, i); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return l.Close()
}

func child(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childRole+"="+role, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

func plain(v any) any { return v }

// clock is a clock that tests can set.
type clock struct{ t time.Time }

func (c *clock) now() time.Time {
	c.t = c.t.Add(time.Second)
	return c.t
}

func newClock() *clock { return &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func openLog(t testing.TB, dir string, c *clock) *Log {
	t.Helper()
	l, err := Open(dir, Options{Redact: plain, now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendEntries(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		e := Entry{Hook: HookPreTool, Session: "s", Door: "acp", Tool: "bash", Call: strconv.Itoa(i), Input: map[string]any{"command": "ls"}, Decision: "allow", Reason: "read-only", Duration: 1.5}
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// threeDays makes a log of 7, 5 and 6 entries.
func threeDays(t testing.TB, dir string) {
	t.Helper()
	c := newClock()
	l := openLog(t, dir, c)
	for _, n := range []int{7, 5, 6} {
		appendEntries(t, l, n)
		c.t = c.t.Add(24 * time.Hour)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func verify(t testing.TB, dir string) Report {
	t.Helper()
	r, err := Verify(context.Background(), dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func clean(t testing.TB, dir string, entries int) Report {
	t.Helper()
	r := verify(t, dir)
	for _, p := range r.Problems {
		t.Errorf("problem: %v", p)
	}
	if r.Entries != entries {
		t.Errorf("%d entries, want %d", r.Entries, entries)
	}
	return r
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeFile(t testing.TB, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lastFile returns the path of the newest file of a log.
func lastFile(t testing.TB, dir string) string {
	t.Helper()
	names, err := files(dir)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	return filepath.Join(dir, names[len(names)-1])
}

// writeHead replaces head.json.
func writeHead(t testing.TB, dir string, h head) {
	t.Helper()
	data, err := encodeHead(h)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, headName), string(data))
}
