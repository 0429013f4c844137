package httpserver

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listener is the process that listens on a TCP port, as far as this user may see;
// 0 if that cannot be told.
func listener(port int) (pid int, name string) {
	var sockets []string // as the links of open files name them
	for _, list := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(list) // there may be no IPv6
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != "0A" {
				continue
			}
			_, at, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseUint(at, 16, 16); err == nil && int(n) == port {
				sockets = append(sockets, "socket:["+fields[9]+"]")
			}
		}
	}
	if len(sockets) == 0 {
		return 0, ""
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*") // those of other users are left out
	for _, file := range files {
		if to, err := os.Readlink(file); err != nil || !slices.Contains(sockets, to) {
			continue
		}
		process := filepath.Dir(filepath.Dir(file))
		comm, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue // it has just ended
		}
		pid, _ = strconv.Atoi(filepath.Base(process)) // the pattern has digits alone
		return pid, strings.TrimSpace(string(comm))
	}
	return 0, ""
}
