package oracle

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/shell"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

const (
	settingPrefix = "COPILOT_BRIDGE_TEST_ORACLE" // number of cases; also with the suffixes _SEED and _CASE
	sample        = 1_500
	// patience is the time limit of a command. Only commands that wait forever
	// exceed it, and they have had their effects by then.
	patience = 2 * time.Second
	workers  = 2
)

func TestMain(m *testing.M) {
	if os.Getenv("ORACLE_DRIVER") != "" {
		if err := runDriver(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// trial is a case: a shell construct around programs from
// policy.ReadOnlyCommands, with options from the programs' own help. It depends
// only on the seed and its number, so that it can be repeated.
type trial struct {
	N      int
	Denies bool // the policy has reads.deny
	Text   string
	// The results.
	Leaked, Late bool
	Failed       string
}

// runDriver runs commands one after the other and reports the result of each.
// strace watches the process that calls it.
func runDriver(in io.Reader, out io.Writer) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var place program.Place
	if err := dec.Decode(&place); err != nil {
		return err
	}
	for {
		var c trial
		if err := dec.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if f, err := os.Open(mark + strconv.Itoa(c.N)); err == nil {
			return errors.Join(errors.New(mark+" is there"), f.Close())
		}
		cmd, err := program.Shell(place, c.Text)
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			out, problems := &program.Head{Limit: 1 << 20}, &program.Head{Limit: 1 << 20}
			_, err = cmd.Run(ctx, program.RunOptions{Stdout: out, Stderr: problems})
			c.Late = ctx.Err() != nil
			c.Leaked = strings.Contains(out.String()+problems.String(), guardtest.Canary)
			cancel()
		}
		if err != nil && !c.Late {
			c.Failed = err.Error()
		}
		if err := enc.Encode(c); err != nil {
			return err
		}
	}
}

// oracle has the guard judge commands as the tool bus would, with the default
// policy and without a user to ask. It runs those that are allowed as the tool
// bus runs them, and judges their effects.
type oracle struct {
	*testTree
	ws     *paths.Workspace
	guards map[bool]*guard.Guard // with and without reads.deny
	rules  map[bool]*policy.Policy
	strace string
	driver string // name of the test binary in the kernel

	trials   map[int]trial
	expected map[int]expectation
}

// expectation lists the programs and files from the analysis of a command.
type expectation struct {
	programs []string
	writes   []string
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	refuse := t.Skipf
	if os.Getenv(settingPrefix) != "" {
		refuse = t.Fatalf
	}
	strace, err := program.Find("strace", os.Environ())
	if err != nil {
		refuse("strace is not installed, so nothing is run: as root, run: apt-get install -y strace")
	}
	try, err := program.New(program.Place{Env: os.Environ()}, strace, append(straceArgs(os.DevNull), "true")...)
	check(t, err)
	problems := &program.Head{Limit: 1 << 10}
	if exit, err := try.Run(t.Context(), program.RunOptions{Stderr: problems}); err != nil || exit.Err() != nil {
		refuse("strace cannot watch programs here, so nothing is run: %s", problems)
	}
	o := &oracle{testTree: newTestTree(t), strace: strace, guards: map[bool]*guard.Guard{}, rules: map[bool]*policy.Policy{}, trials: map[int]trial{}, expected: map[int]expectation{}}
	self, err := os.Executable()
	check(t, err)
	o.driver = filepath.Base(self)
	o.driver = o.driver[:min(15, len(o.driver))]
	o.ws, err = paths.New(o.Workspace)
	check(t, err)
	t.Cleanup(func() { check(t, o.ws.Close()) })
	denies, err := policy.ParseYAML("policy.yaml", []byte(`reads: {deny: ["**/.env", "secrets/**", "private/**"]}`))
	check(t, err)
	defaults := policy.DefaultsRun()
	defaults.Root, defaults.Protected = o.ws.Root(), []string{o.Home}
	o.rules[false], o.rules[true] = policy.Combine(defaults), policy.Combine(defaults, policy.Layer{Rules: denies, Trusted: true})
	for denies, rules := range o.rules {
		o.guards[denies] = guard.New(guard.Options{Workspace: o.ws, Policy: rules}) // without a user to ask
	}
	return o
}

// allows asks the guard as the tool bus does.
func (o *oracle) allows(c trial) bool {
	cmd, err := o.shell(c.Text)
	if err != nil {
		return false
	}
	call := bridge.ToolCall{ID: strconv.Itoa(c.N), Name: "mcp.shell.run", Args: map[string]any{"command": cmd.Line(), "program": cmd.Path}}
	d := o.guards[c.Denies].Before(context.Background(), call)
	o.guards[c.Denies].Failed(context.Background(), call, "not run") // the guard keeps open calls in memory
	return d.Verdict == bridge.Allow
}

// run runs commands under strace and returns the escapes of each.
func (o *oracle) run(t *testing.T, list []trial) effectsByCase {
	t.Helper()
	for _, c := range list {
		o.trials[c.N], o.expected[c.N] = c, o.analyze(c)
	}
	found := make([]effectsByCase, workers)
	var wg sync.WaitGroup
	for w := range workers {
		var mine []trial
		for i := w; i < len(list); i += workers {
			mine = append(mine, list[i])
		}
		wg.Go(func() {
			found[w] = effectsByCase{}
			if err := o.trace(t, mine, found[w]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all := effectsByCase{}
	for _, e := range found {
		for n, what := range e {
			all[n] = what
		}
	}
	return all
}

// analyze returns the programs and written files that the analysis lists.
func (o *oracle) analyze(c trial) expectation {
	var out expectation
	an, err := shell.Analyse(c.Text)
	if err != nil {
		return out
	}
	for _, cmd := range an.Commands {
		out.programs = append(out.programs, filepath.Base(cmd.Words[0]))
	}
	for _, p := range an.Paths {
		if res, err := o.ws.Resolve(p.Text); p.Write && err == nil {
			out.writes = append(out.writes, res.Abs)
		}
	}
	return out
}

// trace runs commands in one driver process under strace.
func (o *oracle) trace(t *testing.T, list []trial, into effectsByCase) error {
	log := filepath.Join(t.TempDir(), "trace")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd, err := program.New(program.Place{Dir: t.TempDir(), Env: append(os.Environ(), "ORACLE_DRIVER=1")}, o.strace, append(straceArgs(log), self)...)
	if err != nil {
		return err
	}
	var input, output, problems bytes.Buffer
	enc := json.NewEncoder(&input)
	if err := enc.Encode(program.Place{Root: o.Workspace, Env: o.env}); err != nil {
		return err
	}
	for _, c := range list {
		if err := enc.Encode(c); err != nil {
			return err
		}
	}
	exit, err := cmd.Run(t.Context(), program.RunOptions{Stdin: input.Bytes(), Stdout: &output, Stderr: &problems})
	if err = errors.Join(err, exit.Err()); err != nil {
		return fmt.Errorf("strace: %w\n%s", err, problems.String())
	}
	for dec := json.NewDecoder(&output); ; {
		var c trial
		if err := dec.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if c.Leaked && c.Denies {
			into.add(c.N, "the output has the text of a denied file")
		}
		if c.Failed != "" {
			into.add(c.N, "it could not be run: %s", c.Failed)
		}
	}
	f, err := os.Open(log)
	if err != nil {
		return err
	}
	return errors.Join(readTrace(bufio.NewReader(f), o, into), f.Close())
}

// ignored are system files that programs may read, with reasons.
var ignored = []struct{ programs, paths *regexp.Regexp }{
	{match(`.*`), match(`/(usr/)?lib(32|64|exec)?/.*|/etc/ld\.so\..*`)},                                                     // libraries, locales, git's own programs
	{match(`.*`), match(`/usr/share/(locale|zoneinfo|i18n)/.*|/etc/(localtime|locale\.alias)`)},                             // messages and time zones
	{match(`.*`), match(`/dev/(null|tty|zero|full|u?random|pts/.*)|/proc/(self|\d+)/.*`)},                                   // no user data
	{match(`id|whoami|ls|stat|find|git|bash|du`), match(`/etc/(passwd|group|nsswitch\.conf)|/proc/sys/kernel/ngroups_max`)}, // user names; bash reads them for ~user
	{match(`ls|df|find|stat|du|id`), match(`/proc/(filesystems|mounts)|/etc/(mtab|selinux/.*)`)},                            // the list of file systems
	{match(`find`), match(`/`)}, // find tests whether open supports a flag
	{match(`sort|rg|git`), match(`/sys/.*|/proc/(meminfo|cpuinfo|stat|sys/vm/overcommit_memory)`)},        // number of processors and amount of memory
	{match(`file`), match(`/etc/magic.*|/usr/share/(misc/magic.*|file/.*)`)},                              // patterns for file types
	{match(`which|egrep|fgrep`), match(`/usr/bin/(which(\.debianutils)?|[ef]grep)`)},                      // the shell reads these scripts
	{match(`git|rg`), match(`/etc/gitconfig|.*/user/\.(gitconfig|config/git/.*)|/usr/share/git-core/.*`)}, // the settings of the user
}

func resolved(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

func match(re string) *regexp.Regexp { return regexp.MustCompile("^(" + re + ")$") }

// judgeOpen judges the opening of a file. Links in the path are resolved if
// possible.
func (o *oracle) judgeOpen(n int, by, path string, write, failed bool) string {
	rel, inside := strings.CutPrefix(path, o.Workspace+"/")
	if path == o.Workspace {
		rel, inside = ".", true
	}
	harmless := !strings.HasPrefix(path, "/") // a pipe or a socket
	for _, i := range ignored {
		harmless = harmless || i.programs.MatchString(by) && i.paths.MatchString(path)
	}
	denied := false
	if o.trials[n].Denies {
		_, denied = o.rules[true].ReadDenied(rel)
	}
	switch {
	case write && !harmless && !slices.Contains(o.expected[n].writes, path) && !slices.Contains(o.expected[n].writes, resolved(path)):
		return "writes " + path
	case write || failed || harmless:
	case !inside:
		return "reads " + path
	case denied && by != "git": // git compares files; the output is checked for their text
		return "reads the denied " + path
	}
	return ""
}

func (o *oracle) judgeList(_ int, by, dir string) string {
	for _, i := range ignored {
		if i.programs.MatchString(by) && i.paths.MatchString(dir+"/") {
			return ""
		}
	}
	if dir == o.Workspace || strings.HasPrefix(dir, o.Workspace+"/") {
		return "" // names of denied files may be shown, too
	}
	return "lists " + dir
}

func (o *oracle) judgeStart(n int, by, path string) string {
	name := filepath.Base(path)
	switch {
	case strings.HasPrefix(path, o.Root+"/"):
	case name == "bash" && by == o.driver, slices.Contains(o.expected[n].programs, name):
		return ""
	case name == "grep" && (by == "egrep" || by == "fgrep"), name == "git" && by == "git":
		return "" // egrep and fgrep are scripts that run grep; git runs itself for submodules
	}
	return "starts " + path
}

// Commands that the guard allows have no effects beyond those it expects. To
// run more cases, or to repeat one:
//
//	make oracle SEED=7 CASES=50000
//	COPILOT_BRIDGE_TEST_ORACLE_SEED=7 COPILOT_BRIDGE_TEST_ORACLE_CASE=1234 go test -v -run Escapes ./test/oracle
func TestNoEscapes(t *testing.T) {
	seed, cases := number(t, settingPrefix+"_SEED", 1), number(t, settingPrefix, sample)
	o := newOracle(t)
	g := newGenerator(t, o.testTree, seed)
	t.Logf("seed %d", seed)
	if len(g.missing) > 0 {
		t.Logf("not installed, and so not run: %s", strings.Join(g.missing, " "))
	}
	only, one := number(t, settingPrefix+"_CASE", 0), os.Getenv(settingPrefix+"_CASE") != ""
	var allowed []trial
	seen := map[string]bool{}
	for n := range cases {
		if one {
			n = only
		}
		c := trial{N: n, Denies: denies(n), Text: g.command(n)}
		key := fmt.Sprint(c.Denies, c.Text)
		if !seen[key] && o.allows(c) {
			allowed = append(allowed, c)
		}
		seen[key] = true
		if one {
			t.Logf("case %d, allowed %v: %s", n, len(allowed) > 0, c.Text)
			break
		}
	}
	escapes := o.run(t, allowed)
	report(t, o, seed, escapes)
	t.Logf("%d cases of %d programs with %d options: %d different, %d allowed and run, %d escapes",
		cases, len(g.programs), g.countOptions(), len(seen), len(allowed), len(escapes))
	if !one && len(allowed) < len(seen)/10 {
		t.Errorf("only %d of %d commands were allowed: the generator no longer fits the guard", len(allowed), len(seen))
	}
}

func report(t *testing.T, o *oracle, seed int, escapes effectsByCase) {
	t.Helper()
	for _, n := range slices.Sorted(maps.Keys(o.trials)) {
		if c, what := o.trials[n], escapes[n]; what != nil {
			t.Errorf("seed %d, case %d, reads.deny %v: %q\n\t%s", seed, n, c.Denies, c.Text, strings.Join(what, "\n\t"))
		}
	}
}

// denies reports whether a case is judged with reads.deny.
func denies(n int) bool { return n%2 == 0 }

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	check(t, err)
	return n
}

// Without the guard, each of these commands has an effect that is reported.
func TestTheOracleCanFail(t *testing.T) {
	o := newOracle(t)
	var list []trial
	want := map[int]string{}
	for i, c := range [][2]string{
		{`awk 'BEGIN { print 1 > "plain/w" }'`, "awk writes " + o.Workspace + "/plain/w"},
		{"rm README.md", `rm calls unlinkat`},
		{"mv README.md x", `mv calls rename`},
		{"chmod 600 README.md", `chmod calls fchmodat`},
		{"mkdir new", `mkdir calls mkdir`},
		{"cat filelink", "cat reads " + o.Outside + "/secret.txt"},
		{"echo < ../user/notes.txt", "bash reads " + o.user + "/notes.txt"},
		{"cat plain/a.txt .env", "cat reads the denied " + o.Workspace + "/.env"},
		{"git show HEAD~2:.env", "the output has the text"},
		{"ls tree/a/out/", "ls lists " + o.Outside},
		{"grep -R leaf tree", "grep reads " + o.Outside + "/sub/deep.txt"},
		{fmt.Sprintf("echo x > /dev/tcp/127.0.0.1/%d", o.port), "bash calls connect"},
		{"cd hostile/filter && git diff", "git starts "},
		{"cd hostile/links && git log -1 --use-mailmap; cat .mailmap", "cat reads " + o.Outside + "/secret.txt"},
		{"find docs -delete", "find calls unlinkat"},
		{"bash evil.sh", "bash starts /usr/bin/touch"},
		{"(cat ../outside/secret.txt) & wait", "cat reads " + o.Outside + "/secret.txt"},
	} {
		list, want[i] = append(list, trial{N: i, Denies: true, Text: c[0]}), c[1]
	}
	escapes := o.run(t, list)
	for _, c := range list {
		if all := strings.Join(escapes[c.N], "\n"); !strings.Contains(all, want[c.N]) {
			t.Errorf("%s: %q is not in what was found:\n%s", c.Text, want[c.N], all)
		}
	}
}
