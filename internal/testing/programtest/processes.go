package programtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Processes returns the command lines of the processes whose home is a directory or
// below it, and which have these variables. It is empty on systems that do not show
// the environment of processes.
func Processes(home string, variables ...string) map[int]string {
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, dir := range dirs {
		env, err := os.ReadFile(dir + "/environ")
		env = append([]byte{0}, env...)
		if err != nil || !bytes.Contains(env, []byte("\x00HOME="+home+"\x00")) && !bytes.Contains(env, []byte("\x00HOME="+home+"/")) {
			continue // ended, or of somebody else
		}
		has := true
		for _, v := range variables {
			has = has && bytes.Contains(env, []byte("\x00"+v+"="))
		}
		line, _ := os.ReadFile(dir + "/cmdline")
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && has && len(line) > 0 { // a zombie has none
			found[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// NoneLeft checks that the processes of a home end soon.
func NoneLeft(tb testing.TB, home string) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		left := Processes(home)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Errorf("processes are left: %v", left)
			return
		}
	}
}
