package supervise

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Callers returns the values that a variable has in the environments of those
// who may have called this process: the processes above it, and those that are
// connected to the nearest one above it that listens. The environment alone
// does not tell, because a server that is called starts others with its own
// environment. Those further up have started that server and hand
// no calls on; one may be what our own programs talk to, such as a model.
//
// ignore is for command lines which are known to call no one. Processes
// that cannot be read, such as those of other users, are passed over.
func Callers(variable string, ignore func(args []string) bool) []string {
	above := ancestors(os.Getpid())
	sockets := append(readSockets("/proc/net/tcp"), readSockets("/proc/net/tcp6")...)
	listening := map[string]string{} // inode to port
	here := map[[2]string]bool{}
	for _, s := range sockets {
		if s.state == stateListen {
			listening[s.inode] = s.local
		}
		here[[2]string{s.local, s.remote}] = true
	}
	var found []string
	ports := map[string]bool{}
	for _, pid := range above {
		if v, ok := variableOf(pid, variable); ok {
			found = append(found, v)
		}
		if len(ports) > 0 {
			continue
		}
		for _, inode := range socketsOf(pid) {
			if port, ok := listening[inode]; ok {
				ports[port] = true
			}
		}
	}
	calling := map[string]bool{} // the other ends of their connections, if on this machine
	for _, s := range sockets {
		if s.state == stateEstablished && ports[s.remote] && here[[2]string{s.remote, s.local}] {
			calling[s.inode] = true
		}
	}
	if len(calling) == 0 {
		return found
	}
	for _, pid := range processes() {
		v, ok := variableOf(pid, variable)
		if !ok || pid == os.Getpid() || !slices.ContainsFunc(socketsOf(pid), func(inode string) bool { return calling[inode] }) || ignore(arguments(pid)) {
			continue
		}
		found = append(found, v)
	}
	return found
}

// ancestors lists the processes above one, without the first of all.
func ancestors(pid int) []int {
	var above []int
	for len(above) < 100 {
		s, err := readStat(pid)
		if err != nil || s.ppid <= 1 {
			break
		}
		pid = s.ppid
		above = append(above, pid)
	}
	return above
}

// The states of a socket, as the kernel writes them.
const (
	stateEstablished = "01"
	stateListen      = "0A"
)

// socket is a line of the kernel's table: ports in hexadecimal.
type socket struct{ local, remote, state, inode string }

func readSockets(table string) []socket {
	data, err := os.ReadFile(table)
	if err != nil {
		return nil
	}
	return parseSockets(string(data))
}

func parseSockets(table string) []socket {
	var out []socket
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 10 || f[0] == "sl" {
			continue
		}
		_, local, _ := strings.Cut(f[1], ":")
		_, remote, _ := strings.Cut(f[2], ":")
		out = append(out, socket{local: local, remote: remote, state: f[3], inode: f[9]})
	}
	return out
}

// socketsOf lists the inodes of a process's sockets.
func socketsOf(pid int) []string {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		link, err := os.Readlink(dir + "/" + e.Name())
		if inode, ok := strings.CutPrefix(link, "socket:["); ok && err == nil {
			out = append(out, strings.TrimSuffix(inode, "]"))
		}
	}
	return out
}

// variableOf reads a variable that a process was started with; of several with
// one name the last counts.
func variableOf(pid int, name string) (value string, ok bool) {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return "", false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if rest, found := bytes.CutPrefix(kv, []byte(name+"=")); found {
			value, ok = string(rest), true
		}
	}
	return value, ok
}

func arguments(pid int) []string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
}

// inTree says whether a process above this one is part of a tree. A supervisor
// adopts what loses its parent, so leaving the parent does not help.
func inTree() bool {
	return slices.ContainsFunc(ancestors(os.Getpid()), func(pid int) bool {
		_, ok := variableOf(pid, envTree)
		return ok
	})
}
