package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// world makes a copy-on-write root of this machine, without anything of the
// user's and of Go, and starts a shell in it. What is written goes to upper/.
// All ends with the shell, because it is process 1 of its namespace. The root is
// volatile: without that, the kernel writes the whole disk's unwritten data out at its
// end, and two builds have just left much of it.
const world = `set -e
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work",volatile "$1/root"
cd "$1/root"
mkdir -p opt/clients
mount --bind "$2" opt/clients
mount --bind "$1/package" media
for d in root tmp home run usr/local usr/lib/go*; do [ ! -d "$d" ] || mount -t tmpfs tmpfs "$d"; done
for d in work /src; do [ ! -d "./$d" ] || mount -t tmpfs tmpfs "./$d"; done
mkdir -p usr/local/bin && ln -s /opt/clients/claude usr/local/bin/claude
mount -t proc proc proc
mount --rbind /dev dev
exec chroot . /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=screen-256color PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin PS1='\[\e[32m\]~\[\e[0m\] $ ' "${@:3}" /bin/bash --norc --noprofile
`

// A terminal is a shell in tmux, in a root of its own.
type terminal struct {
	t      *testing.T
	socket string
	pid    int    // of the process whose end is that of all
	dir    string // upper/ holds what was written
	frames []frame
	last   time.Time
}

// open starts the shell. The directory clients holds the program claude.
func open(t *testing.T, pkg, clients string) *terminal {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"upper", "work", "root", "package"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil { //nolint:gosec // the shell's users enter it
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(pkg) //nolint:gosec // the package under test
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package", "copilot-bridge.deb"), content, 0o644); err != nil { //nolint:gosec // a package is public
		t.Fatal(err)
	}
	x := &terminal{t: t, socket: filepath.Join(dir, "tmux"), dir: dir}
	args := []string{"-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows),
		"unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", world, "world", dir, clients}
	for _, v := range os.Environ() { // a network with certificates of its own
		if name, _, _ := strings.Cut(v, "="); regexp.MustCompile(`CERT|_CA_|(?i)proxy$`).MatchString(name) && name != "GOPROXY" {
			args = append(args, v)
		}
	}
	x.tmux(args...)
	t.Cleanup(func() { x.tmux("kill-server") })
	x.tmux("set-option", "-g", "status", "off")
	x.tmux("set-option", "-g", "remain-on-exit", "on")
	pid, err := strconv.Atoi(strings.TrimSpace(x.tmux("display-message", "-p", "#{pane_pid}")))
	if err != nil {
		t.Fatal(err)
	}
	x.pid = pid
	return x
}

func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "tmux", append([]string{"-S", x.socket}, args...)...).CombinedOutput() //nolint:gosec // arguments of this test
	if err != nil {
		x.t.Fatalf("tmux %s: %v\n%s", args[0], err, out)
	}
	return string(out)
}

// look records the screen if it has changed, and returns its text.
func (x *terminal) look() string {
	x.t.Helper()
	screen := x.tmux("capture-pane", "-e", "-p")
	now := time.Now()
	if n := len(x.frames); n > 0 {
		if x.frames[n-1].screen == screen {
			return plain(screen)
		}
		x.frames[n-1].seconds = min(max(now.Sub(x.last).Seconds(), 0.15), 2)
	}
	x.frames = append(x.frames, frame{screen: screen, seconds: 3})
	x.last = now
	return plain(screen)
}

// hold gives a reader of the recording time for what is on the screen.
func (x *terminal) hold(d time.Duration) { x.last = x.last.Add(-d) }

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func plain(screen string) string { return escapes.ReplaceAllString(screen, "") }

// wait looks at the screen until it matches.
func (x *terminal) wait(pattern string, limit time.Duration) string {
	x.t.Helper()
	re := regexp.MustCompile(pattern)
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(limit); ; {
		screen := x.look()
		if re.MatchString(screen) {
			return screen
		}
		select {
		case <-tick.C:
		case <-deadline:
			x.t.Fatalf("%s did not appear within %s:\n%s", pattern, limit, strings.TrimRight(screen, "\n"))
		}
	}
}

// ended waits until nothing runs in the terminal. It does not ask tmux, which
// sometimes misses a process's end: while it tells utmp that the terminal is
// closed it does not hear SIGCHLD.
func (x *terminal) ended(limit time.Duration) {
	x.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(limit); ; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", x.pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			x.t.Fatalf("the shell did not end within %s: %s", limit, stat)
		}
	}
}

// typed types text as a person would and presses a key.
func (x *terminal) typed(text, key string) {
	x.t.Helper()
	x.tmux("send-keys", "-l", text)
	x.look()
	x.hold(time.Second)
	x.tmux("send-keys", key)
}

// command runs a line in a fresh screen of the shell, waits for what it should
// show, and for the prompt after it.
func (x *terminal) command(line, shows string, limit time.Duration) string {
	x.t.Helper()
	x.begin(line)
	x.wait(shows, limit)
	return x.prompt(limit)
}

// prompt waits for the shell's prompt.
func (x *terminal) prompt(limit time.Duration) string {
	x.t.Helper()
	return x.wait(`(?m)^~ \$\s*\z`, limit)
}

func (x *terminal) begin(line string) {
	x.t.Helper()
	x.hold(2 * time.Second)
	x.tmux("send-keys", "C-l")
	x.wait(`^~ \$\s*\z`, 20*time.Second)
	x.typed(line, "Enter")
}
