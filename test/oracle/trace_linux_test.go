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

// writers are system calls that change files or the system without a file
// descriptor. strace makes them fail, so that no file is removed and no clock
// is set even if the guard is wrong.
const writers = `unlink unlinkat rename renameat renameat2 mkdir mkdirat rmdir link linkat symlink symlinkat mknod mknodat chmod fchmod fchmodat fchmodat2
	chown fchown lchown fchownat truncate setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr utime utimes utimensat futimesat
	clock_settime settimeofday adjtimex clock_adjtime mount umount2 sethostname setdomainname reboot swapon swapoff ptrace`

// readers are the other system calls that strace records.
const readers = "open openat openat2 creat getdents getdents64 execve execveat connect bind sendto sendmsg sendmmsg"

// straceArgs are the arguments of strace for watching a program and its
// children.
func straceArgs(log string) []string {
	calls := func(list string) string { return "?" + strings.Join(strings.Fields(list), ",?") }
	return []string{"-f", "-y", "-Y", "-q", "-s", "512", "--seccomp-bpf", "-o", log, "-e", "trace=" + calls(writers) + "," + calls(readers),
		"-e", "inject=" + calls(writers) + ":error=EPERM", "-e", "signal=none"}
}

// effectsByCase are the effects of each case, without duplicates.
type effectsByCase map[int][]string

func (e effectsByCase) add(n int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, known := range e[n] {
		if known == text {
			return
		}
	}
	e[n] = append(e[n], text)
}

// process is a process in strace's log.
type process struct {
	n          int    // number of its case
	program    string // the program that it runs
	unfinished string // a call that ends on a later line
}

// mark is a file that the driver tries to open before a case; the failed call
// marks the start of the case in the log.
const mark = "/oracle-case/"

var (
	line    = regexp.MustCompile(`^(\d+)<([^>]*)> +(.*)$`)
	resumed = regexp.MustCompile(`^<\.\.\. \w+ resumed>(.*)$`)
	opened  = regexp.MustCompile(`^(?:open|openat|openat2|creat)\((?:[^<"]*<((?:[^>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"(?:\.\.\.)?(?:, ([^)]*))?\) += (-?\d+|\?)(?:<(.*)>)?`)
	writing = regexp.MustCompile(`O_(WRONLY|RDWR|CREAT|TRUNC|TMPFILE)`)
	listed  = regexp.MustCompile(`^getdents(?:64)?\(\d+<((?:[^>\\]|\\.)*)>`)
	started = regexp.MustCompile(`^execve(?:at)?\((?:[^<"]*<[^>]*>, )?"((?:[^"\\]|\\.)*)".* = (-?\d+|\?)`)
)

// readTrace assigns the lines of strace's log to cases and records the escapes.
func readTrace(r io.Reader, o *oracle, into effectsByCase) error {
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
			p = &process{n: current, program: unescape(m[2])} // only the first process has no execve call in the log
			processes[pid] = p
		}
		if m := resumed.FindStringSubmatch(call); m != nil {
			call, p.unfinished = p.unfinished+m[1], ""
		}
		if strings.HasSuffix(call, " <detached ...>") {
			continue // killed
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

// effect judges one system call of a process, and returns the escape or "".
// These are escapes:
//
//   - a file is written, created, moved or removed, or its mode is changed, and
//     the analysis did not list it as written,
//   - a program is started that the analysis did not list,
//   - a file outside the workspace or one that reads.deny names is opened, or a
//     directory outside is listed,
//   - a socket is connected or bound.
//
// The existence, size and owner of an outside file are no escape: links are
// shown with their targets. Text of a denied file in the output is one too, see
// trial.Leaked.
func (p *process) effect(call string, o *oracle) string {
	name, _, _ := strings.Cut(call, "(")
	switch {
	case (p.program == "bash" || p.program == "sort") && strings.Contains(call, o.temp+"/s"): // temporary files for large input
	case p.program == "git" && strings.Contains(call, "/.git/index.lock\""): // git diff updates it, even without optional locks
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
			return "" // the file does not exist
		}
		if strings.Contains(flags, "O_DIRECTORY") || strings.Contains(flags, "O_PATH") {
			return "" // judged when it is listed
		}
		return o.judgeOpen(p.n, p.program, path, write, failed)
	case strings.HasPrefix(name, "getdents"):
		if m := listed.FindStringSubmatch(call); m != nil {
			return o.judgeList(p.n, p.program, unescape(m[1]))
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
		return o.judgeStart(p.n, by, path)
	case strings.HasPrefix(name, "send"):
		if strings.Contains(call, "sa_family=AF_INET") {
			return "sends " + call
		}
	case strings.HasPrefix(name, "???"): // killed
	case name == "connect" && strings.Contains(call, `sun_path="/var/run/nscd/`): // name service cache, for user names
	default:
		return "calls " + call
	}
	return ""
}

// unescape decodes the escapes in strace's strings.
func unescape(s string) string {
	var b strings.Builder
	for s != "" {
		if s[0] == '\\' && len(s) > 1 && s[1] >= '0' && s[1] <= '7' {
			end := 1
			for end < len(s) && end < 4 && s[end] >= '0' && s[end] <= '7' {
				end++
			}
			c, _ := strconv.ParseUint(s[1:end], 8, 8) // a byte as three octal digits
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
