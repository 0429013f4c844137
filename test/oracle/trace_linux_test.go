package oracle

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// writers are calls that change files or the system otherwise than through a
// descriptor. strace lets them fail.
const writers = `unlink unlinkat rename renameat renameat2 mkdir mkdirat rmdir link linkat symlink symlinkat mknod mknodat chmod fchmod fchmodat fchmodat2
	chown fchown lchown fchownat truncate setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr utime utimes utimensat futimesat
	clock_settime settimeofday adjtimex clock_adjtime mount umount2 sethostname setdomainname reboot swapon swapoff ptrace`

// readers are the other calls that are watched.
const readers = "open openat openat2 creat getdents getdents64 execve execveat connect bind sendto sendmsg sendmmsg"

// straceArgs make strace watch a program and all that it starts.
func straceArgs(log string) []string {
	calls := func(list string) string { return "?" + strings.Join(strings.Fields(list), ",?") }
	return []string{"-f", "-y", "-Y", "-qq", "-s", "512", "--seccomp-bpf", "-o", log, "-e", "trace=" + calls(writers) + "," + calls(readers),
		"-e", "inject=" + calls(writers) + ":error=EPERM", "-e", "signal=none"}
}

// effects are what a case did, each once.
type effects map[int][]string

func (e effects) add(n int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, known := range e[n] {
		if known == text {
			return
		}
	}
	e[n] = append(e[n], text)
}

// process is one that strace sees.
type process struct {
	n          int    // the case that it belongs to
	program    string // which it runs
	unfinished string // a call whose end is on another line
}

// mark is the name of a file that the driver tries to open before a case.
const mark = "/oracle-case/"

var (
	line    = regexp.MustCompile(`^(\d+)<([^>]*)> +(.*)$`)
	resumed = regexp.MustCompile(`^<\.\.\. \w+ resumed>(.*)$`)
	opened  = regexp.MustCompile(`^(?:open|openat|openat2|creat)\((?:[^<"]*<((?:[^>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"(?:\.\.\.)?(?:, ([^)]*))?\) += (-?\d+|\?)(?:<(.*)>)?`)
	writing = regexp.MustCompile(`O_(WRONLY|RDWR|CREAT|TRUNC|TMPFILE)`)
	listed  = regexp.MustCompile(`^getdents(?:64)?\(\d+<((?:[^>\\]|\\.)*)>`)
	started = regexp.MustCompile(`^execve(?:at)?\((?:[^<"]*<[^>]*>, )?"((?:[^"\\]|\\.)*)".* = (-?\d+|\?)`)
)

// readTrace sorts what strace wrote down by cases and returns the escapes.
func readTrace(r io.Reader, o *oracle, into effects) error {
	processes := map[string]*process{}
	current := -1
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		m := line.FindStringSubmatch(scan.Text())
		if m == nil {
			return fmt.Errorf("strace wrote %q", scan.Text())
		}
		pid, call := m[1], m[3]
		if strings.HasPrefix(call, "+++") {
			delete(processes, pid)
			continue
		}
		p := processes[pid]
		if p == nil {
			p = &process{n: current, program: unescape(m[2])} // strace knows its first program alone
			processes[pid] = p
		}
		if m := resumed.FindStringSubmatch(call); m != nil {
			call, p.unfinished = p.unfinished+m[1], ""
		}
		if strings.HasSuffix(call, " <detached ...>") {
			continue // it was killed
		}
		if begun, ok := strings.CutSuffix(call, " <unfinished ...>"); ok {
			p.unfinished = begun
			continue
		}
		if _, rest, ok := strings.Cut(call, `"`+mark); ok {
			number, _, _ := strings.Cut(rest, `"`)
			n, err := strconv.Atoi(number)
			if err != nil {
				return err
			}
			current, p.n = n, n
			continue
		}
		if p.n >= 0 {
			by := p.program
			if what := p.effect(call, o); what != "" {
				into.add(p.n, "%s %s", by, what)
			}
		}
	}
	return scan.Err()
}

// effect judges one call of a process.
func (p *process) effect(call string, o *oracle) string {
	name, _, _ := strings.Cut(call, "(")
	switch {
	case (p.program == "bash" || p.program == "sort") && strings.Contains(call, o.temp+"/s"): // temporary files for much input
	case p.program == "git" && strings.Contains(call, "/.git/index.lock\""): // diff brings it up to date, also without optional locks
	case strings.HasPrefix(name, "open") || name == "creat":
		m := opened.FindStringSubmatch(call)
		if m == nil {
			return "was not understood: " + call
		}
		path, flags, failed := unescape(m[2]), m[3], m[4] == "-1" || m[4] == "?"
		if !failed {
			path = unescape(m[5])
		} else if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(unescape(m[1]), path)
		}
		write := name == "creat" || writing.MatchString(flags)
		if path == "" {
			return "" // no file has that name
		}
		if strings.Contains(flags, "O_DIRECTORY") || strings.Contains(flags, "O_PATH") {
			return "" // it counts once it is listed
		}
		return o.opens(p.n, p.program, path, write, failed)
	case strings.HasPrefix(name, "getdents"):
		if m := listed.FindStringSubmatch(call); m != nil {
			return o.lists(p.n, p.program, unescape(m[1]))
		}
	case strings.HasPrefix(name, "execve"):
		m := started.FindStringSubmatch(call)
		if m == nil {
			return "was not understood: " + call
		}
		by, path := p.program, unescape(m[1])
		if m[2] == "0" {
			p.program = filepath.Base(path)
		}
		return o.starts(p.n, by, path)
	case strings.HasPrefix(name, "send"):
		if strings.Contains(call, "sa_family=AF_INET") {
			return "sends " + call
		}
	case strings.HasPrefix(name, "???"): // it was killed
	case name == "connect" && strings.Contains(call, `sun_path="/var/run/nscd/`): // where names of users are looked up
	default:
		return "calls " + call
	}
	return ""
}

// unescape undoes what strace does to odd characters.
func unescape(s string) string {
	var b strings.Builder
	for s != "" {
		if s[0] == '\\' && len(s) > 1 && s[1] >= '0' && s[1] <= '7' {
			end := 1
			for end < len(s) && end < 4 && s[end] >= '0' && s[end] <= '7' {
				end++
			}
			c, _ := strconv.ParseUint(s[1:end], 8, 8) // three octal digits of a byte
			b.WriteByte(byte(c))
			s = s[end:]
			continue
		}
		r, _, rest, err := strconv.UnquoteChar(s, 0)
		if err != nil {
			r, rest = rune(s[0]), s[1:]
			if s[0] == '\\' && len(s) > 1 {
				r, rest = rune(s[1]), s[2:]
			}
		}
		b.WriteRune(r)
		s = rest
	}
	return b.String()
}
