package durable

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary runs itself again as a child; these variables tell the
// child what to be and on which file to work.
const (
	childRole = "DURABLE_TEST_ROLE"
	childPath = "DURABLE_TEST_PATH"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := runChild(role, os.Getenv(childPath)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func runChild(role, path string) error {
	switch role {
	case "write":
		return writeForever(path)
	case "lock":
		return lockAndHang(path)
	default:
		return runPlatformChild(role, path)
	}
}

// writeForever writes ever newer versions and tells on stdout each one that
// WriteFile has acknowledged. The end of the parent ends it through the pipe.
func writeForever(path string) error {
	version := firstVersion(path)
	data := versioned(version)
	for {
		if err := WriteFile(path, data, 0o600); err != nil {
			return err
		}
		// Made before the acknowledgement, so that a parent that kills at
		// once hits the next write and not the making of its data.
		data = versioned(version + 1)
		if _, err := fmt.Println(version); err != nil {
			return err
		}
		version++
	}
}

func lockAndHang(path string) error {
	if _, err := Lock(context.Background(), path); err != nil {
		return err
	}
	if _, err := fmt.Println("locked"); err != nil {
		return err
	}
	// Ends when the parent kills us or closes stdin.
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}

func firstVersion(path string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		return 1
	}
	version, err := checkVersioned(data)
	if err != nil {
		return 1
	}
	return version + 1
}

// versioned is a body large enough that a kill lands in the middle of its
// write, behind a header with its number and hash. Lengths differ, so that a
// new body over an old one would show.
func versioned(version int) []byte {
	body := bytes.Repeat(fmt.Appendf(nil, "%08d", version), 256*1024+version%1000)
	return append(fmt.Appendf(nil, "%d %x\n", version, sha256.Sum256(body)), body...)
}

func checkVersioned(data []byte) (int, error) {
	header, body, found := bytes.Cut(data, []byte("\n"))
	if !found {
		return 0, fmt.Errorf("no header in %d bytes", len(data))
	}
	var version int
	var sum string
	if _, err := fmt.Sscanf(string(header), "%d %s", &version, &sum); err != nil {
		return 0, err
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(body)); got != sum {
		return 0, fmt.Errorf("version %d is torn: %d bytes hash to %s, want %s", version, len(body), got, sum)
	}
	return version, nil
}

// child prepares this binary in the given role; the caller starts it and
// waits for it.
func child(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childRole+"="+role, childPath+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

func mustWrite(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}
