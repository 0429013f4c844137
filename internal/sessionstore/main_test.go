package sessionstore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary runs itself again as a child that puts entries; these
// variables tell the child which store, under which name, and how many (0 is
// without end).
const (
	childPath  = "SESSIONSTORE_TEST_PATH"
	childName  = "SESSIONSTORE_TEST_NAME"
	childCount = "SESSIONSTORE_TEST_COUNT"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := putMany(path, os.Getenv(childName), os.Getenv(childCount)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// putMany prints the id of each entry that the store has taken. The end of
// the parent ends it through the pipe.
func putMany(path, name, count string) error {
	limit, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	store := Open(path)
	for i := 0; limit == 0 || i < limit; i++ {
		id := fmt.Sprintf("%s-%04d", name, i)
		if err := store.Put(context.Background(), sample(id)); err != nil {
			return err
		}
		if _, err := fmt.Println(id); err != nil {
			return err
		}
	}
	return nil
}

func sample(id string) Entry {
	return Entry{ID: id, Agent: "sdk", Profile: ProfileAgent, State: StateIdle, WorkingDirectory: "/src", Model: "gpt-5", Title: "Fix <b> & go"}
}

// putter prepares a putting process; the caller starts it and waits for it.
func putter(t *testing.T, path, name string, count int) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childPath+"="+path, childName+"="+name, childCount+"="+strconv.Itoa(count))
	cmd.Stderr = os.Stderr
	return cmd
}
