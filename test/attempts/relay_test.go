//go:build unix

package attempts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// relayVerb makes this test's own program a relay.
const relayVerb = "relay"

// relay starts a process that stands between a runtime and the model, and
// returns the model's address there. The program takes whoever is connected to
// a server above it for its caller; without a relay that would be the
// runtimes of other doors, since the model is in the process that starts the
// program, and it would see a loop.
func relay(t *testing.T, url string) string {
	t.Helper()
	addr, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	cmd := exec.Command(os.Args[0], relayVerb, addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("the relay: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(line) + "/" + path
}

// relayMain hands connections on to an address until its input ends.
func relayMain(to string) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go handOn(c, to)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends in any case
	return 0
}

// handOn copies both ways until both sides have said all.
func handOn(from net.Conn, addr string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // the other side is told by the end
			if c, ok := way[1].(*net.TCPConn); ok {
				_ = c.CloseWrite()
			}
		})
	}
	both.Wait()
}
