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

// relayVerb makes the test binary run as a relay.
const relayVerb = "relay"

// relay starts a proxy process between the runtimes and the model, and returns
// its URL. The bridge treats the processes connected to a server above it as
// its callers. The model runs in the test process, which starts the bridge, so
// without a proxy the runtimes of other doors would look like callers, and the
// bridge would detect a loop.
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

// relayMain forwards connections to an address until standard input is closed.
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
			go forward(c, to)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with any error
	return 0
}

// forward copies in both directions until both sides are done.
func forward(from net.Conn, addr string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // errors show up as the end of the stream
			if c, ok := way[1].(*net.TCPConn); ok {
				_ = c.CloseWrite()
			}
		})
	}
	both.Wait()
}
