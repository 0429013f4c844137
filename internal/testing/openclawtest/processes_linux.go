package openclawtest

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Process is a process that runs.
type Process struct {
	ID   int
	Line string // its command line
}

// Processes lists the processes whose home is that directory.
func Processes(tb testing.TB, home string) []Process {
	tb.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		tb.Fatal(err)
	}
	var found []Process
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00HOME="+home+"\x00")) {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && len(line) > 0 { // a zombie has none
			found = append(found, Process{id, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))})
		}
	}
	return found
}

// NoneLeft checks that no process is left whose home is that directory.
func NoneLeft(tb testing.TB, home string) {
	tb.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		left := Processes(tb, home)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Errorf("processes are left: %v", left)
			return
		}
	}
}
