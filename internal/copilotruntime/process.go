package copilotruntime

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// pipeGrace is how long a dead program's output may be held open by something
// that it started and that left its process group.
const pipeGrace = 2 * time.Second

// command prepares a program that lives in a process group of its own, which
// is killed when ctx ends and, on Linux, when this process dies.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = pipeGrace
	return cmd
}

// run starts cmd and waits until it and all of its group have gone.
func run(cmd *exec.Cmd) error {
	// The parent-death signal is sent when the thread that started the
	// program ends, so that thread has to stay until the program is gone.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	return finish(cmd)
}

// finish waits for a started cmd and then ends whatever is left of its group,
// such as the CLI under npm's loader script. The group's id is still taken as
// long as it has members; the instant in which an empty group's id could have
// gone to another process is too short for the system to come round to it.
func finish(cmd *exec.Cmd) error {
	err := cmd.Wait()
	return errors.Join(err, killGroup(cmd.Process))
}

// filterEnv returns env without the variables whose upper-case name drop
// wants gone.
func filterEnv(env []string, drop func(name string) bool) []string {
	kept := make([]string, 0, len(env)+1)
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if !drop(strings.ToUpper(name)) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	kept  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.limit):]...)
	t.kept = t.kept[max(0, len(t.kept)-t.limit):]
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.kept), "") }

// quoted is a program's own words as the end of a message, shortened to what
// a person reads.
func quoted(said string) string {
	const maxLines, maxBytes = 8, 800
	said = strings.TrimSpace(said)
	if said == "" {
		return ""
	}
	lines := strings.Split(said, "\n")
	said = strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
	said = strings.ToValidUTF8(said[max(0, len(said)-maxBytes):], "")
	return ": " + said
}
