package supervise

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// callersMode makes the test binary play a part in TestCallers.
const callersMode = "SUPERVISE_TEST_CALLERS"

// callersMain is one of: a server that listens and, for each line that it
// reads, starts a called process with an empty environment; the called process
// itself; or a program that is connected to a server until its input ends.
func callersMain(mode string) int {
	switch mode {
	case "server":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		go func() {
			for {
				if _, err := l.Accept(); err != nil { // held for good
					return
				}
			}
		}()
		fmt.Println(l.Addr())
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			called := exec.Command(os.Args[0])
			called.Env, called.Stdout = []string{callersMode + "=called"}, os.Stdout
			if err := called.Run(); err != nil {
				fmt.Println(err)
			}
		}
	case "called":
		found := Callers("TEST_MARK", func(args []string) bool { return slices.Contains(args, "reader") })
		slices.Sort(found)
		fmt.Println("marks", found)
	case "client":
		c, err := net.Dial("tcp", os.Args[1])
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("connected")
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = c.Close()
	}
	return 0
}

// part starts the test binary in a mode. It ends with its input.
func part(t *testing.T, mode string, env []string, args ...string) (say io.Writer, hear *bufio.Scanner, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Stderr = append([]string{callersMode + "=" + mode}, env...), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = in.Close()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	return in, bufio.NewScanner(out), end
}

func line(t *testing.T, s *bufio.Scanner) string {
	t.Helper()
	if !s.Scan() {
		t.Fatalf("it has ended: %v", s.Err())
	}
	return s.Text()
}

// A mark is found in the processes that are connected to the calling server,
// and in the processes above, though the called process has none.
func TestCallers(t *testing.T) {
	say, hear, _ := part(t, "server", nil)
	address := line(t, hear)
	called := func() string {
		t.Helper()
		if _, err := io.WriteString(say, "call\n"); err != nil {
			t.Fatal(err)
		}
		return line(t, hear)
	}
	if got := called(); got != "marks []" {
		t.Errorf("nobody is connected: %s", got)
	}
	to := func(address string, args []string, env ...string) func() {
		t.Helper()
		_, out, end := part(t, "client", env, append([]string{address}, args...)...)
		if got := line(t, out); got != "connected" {
			t.Fatal(got)
		}
		return end
	}
	client := func(args []string, env ...string) func() { return to(address, args, env...) }
	client(nil) // somebody without a mark
	// Processes above the server may listen too, but pass no calls on.
	above, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = above.Close() }()
	to(above.Addr().String(), nil, "TEST_MARK=8")
	first := client(nil, "TEST_MARK=1")
	client([]string{"reader"}, "TEST_MARK=7") // which calls nobody
	if got := called(); got != "marks [1]" {
		t.Errorf("one is connected: %s", got)
	}
	client(nil, "TEST_MARK=9", "TEST_MARK=2")
	if got := called(); got != "marks [1 2]" {
		t.Errorf("two are connected: %s", got)
	}
	first()
	if got := called(); got != "marks [2]" {
		t.Errorf("one has gone: %s", got)
	}
	say, hear, _ = part(t, "server", []string{"TEST_MARK=5"})
	line(t, hear)
	if got := called(); got != "marks [5]" {
		t.Errorf("the process above has one: %s", got)
	}
}

func TestParseSockets(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:49D5 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 71 1 0 100 0 0 10 0
   1: 0100007F:AAAA 0100007F:49D5 01 00000000:00000000 00:00000000 00000000     0        0 72 1 0 20 4 30 10 -1
garbage
`
	got := parseSockets(table)
	if want := []socket{{"49D5", "0000", "0A", "71"}, {"AAAA", "49D5", "01", "72"}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func FuzzParseSockets(f *testing.F) {
	f.Add("  sl\n 0: 0100007F:49D5 00000000:0000 0A 0:0 00:0 0 0 0 71 1\n")
	f.Fuzz(func(t *testing.T, table string) {
		for _, s := range parseSockets(table) {
			if s.inode == "" || strings.ContainsAny(s.inode, " \n") {
				t.Errorf("%+v", s)
			}
		}
	})
}
