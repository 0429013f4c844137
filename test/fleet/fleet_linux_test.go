package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// tasks is how many tasks the tests' plans have.
func tasks(t *testing.T) int {
	t.Helper()
	text := os.Getenv("COPILOT_BRIDGE_TEST_FLEET_TASKS")
	if text == "" {
		return 24
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("COPILOT_BRIDGE_TEST_FLEET_TASKS=%s", text)
	}
	return n
}

// newMachine gives a host the environment in which the program runs.
func newMachine(h *fleettest.Host) *fleettest.Host {
	h.Env = []string{"COPILOT_BRIDGE_HOME=" + filepath.Join(h.Home, "bridge"), "COPILOT_CLI_PATH=" + copilotRuntime, "COPILOT_BRIDGE_SANDBOX="}
	return h
}

// machines is a fleet: host 1 is the hub, hosts 1 and 2 may give work, and the
// others do it.
type machines struct {
	t       *testing.T
	net     *fleettest.Network
	hubArgs []string
	hub     *fleettest.Process
	givers  []*fleettest.Host
	workers []*worker
	work    work
}

// worker is a machine that does work.
type worker struct {
	*fleettest.Host
	program *fleettest.Process
}

// commandBound is more than any command takes that does no work.
const commandBound = 90 * time.Second

// newFleet starts a hub with these arguments of fleet up, lets the other machines
// in and starts the workers.
func newFleet(t *testing.T, net *fleettest.Network, hubArgs ...string) *machines {
	t.Helper()
	f := &machines{t: t, net: net, hubArgs: append([]string{"fleet", "up", "--json"}, hubArgs...)}
	for n := 1; n <= 5; n++ {
		h := newMachine(net.Host(n))
		if n <= 2 {
			f.givers = append(f.givers, h)
		} else {
			f.workers = append(f.workers, &worker{Host: h})
		}
	}
	f.startHub()
	eventually(t, commandBound, "the hub is not ready", func() string {
		if !strings.Contains(f.hub.Out.String(), "\n") {
			return "it says: " + f.hub.Err.String()
		}
		return ""
	})
	f.command(f.givers[1], "fleet", "join", f.command(f.givers[0], "fleet", "invite", "--coordinator"))
	line := f.command(f.givers[0], "fleet", "invite", "--uses", strconv.Itoa(len(f.workers)))
	for _, w := range f.workers {
		f.startWorker(w, "--join", line)
	}
	f.waitForWorkers()
	return f
}

// waitForWorkers waits until all workers are there, seen from the second machine.
func (f *machines) waitForWorkers() {
	f.t.Helper()
	eventually(f.t, commandBound, "the workers are not there", func() string {
		s, err := f.status(f.givers[1])
		if err != nil {
			return err.Error()
		}
		online := 0
		for _, w := range s.Workers {
			if w.Online && w.Hello != nil && w.Hello.NotReady == "" {
				online++
			}
		}
		if online != len(f.workers) {
			said := fmt.Sprintf("%d of %d", online, len(f.workers))
			for _, w := range f.workers {
				said += "\n" + w.program.Err.String()
			}
			return said
		}
		return ""
	})
}

func (f *machines) startHub() { f.hub = f.start(f.givers[0], f.givers[0].Home, f.hubArgs...) }

func (f *machines) startWorker(w *worker, args ...string) {
	w.program = f.start(w.Host, w.Home, append([]string{"worker", "--demo", "--capacity", "4"}, args...)...)
}

func (f *machines) start(h *fleettest.Host, dir string, args ...string) *fleettest.Process {
	f.t.Helper()
	p, err := h.Start(dir, binary, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// command runs a command of the program to its end and returns what it wrote.
func (f *machines) command(h *fleettest.Host, args ...string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandBound)
	defer cancel()
	out, err := h.Run(ctx, h.Home, binary, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (f *machines) status(h *fleettest.Host) (s fleet.Status, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandBound)
	defer cancel()
	out, err := h.Run(ctx, h.Home, binary, "fleet", "status", "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	return s, err
}

// prepare writes the plan and the repository on the machines that give work.
func (f *machines) prepare(w work) {
	f.t.Helper()
	f.work = w
	dir := w.writeRepository(f.t, f.givers[0])
	for _, h := range f.givers {
		w.writePlan(f.t, h)
		if h == f.givers[0] {
			continue
		}
		if err := os.CopyFS(filepath.Join(h.Home, "repo"), os.DirFS(dir)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// begin starts the run on a machine, resume goes on with it.
func (f *machines) begin(h *fleettest.Host) *fleettest.Process {
	f.t.Helper()
	return f.orchestrate(h, "all", "--plan", filepath.Join(h.Home, "plan.json"))
}

func (f *machines) resume(h *fleettest.Host) *fleettest.Process {
	f.t.Helper()
	return f.orchestrate(h, "--resume", "last")
}

func (f *machines) orchestrate(h *fleettest.Host, args ...string) *fleettest.Process {
	f.t.Helper()
	return f.start(h, filepath.Join(h.Home, "repo"), append([]string{"orchestrate", "--fleet", "--demo", "--yes", "--json", "--max-concurrency", "12"}, args...)...)
}

// resultOf reads the last line of a run that has ended.
func resultOf(p *fleettest.Process) (r orchestrate.Result, err error) {
	lines := strings.Split(strings.TrimSpace(p.Out.String()), "\n")
	err = json.Unmarshal([]byte(lines[len(lines)-1]), &r)
	return r, err
}

// checkRun looks at a run that has ended on a machine: each task was done once,
// and the tree is that of the plan.
func (f *machines) checkRun(h *fleettest.Host, p *fleettest.Process) {
	t := f.t
	t.Helper()
	r, err := resultOf(p)
	if err != nil || p.Code() != 0 || !r.Success || r.Done != len(f.work.plan.Tasks) {
		t.Fatalf("%s ended with %d, %v: %s, %d of %d done\n%s", p.Name, p.Code(), err, r.Summary, r.Done, len(f.work.plan.Tasks), p.Err)
	}
	data, err := os.ReadFile(filepath.Join(h.Home, "bridge", "runs", r.Run, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	accepted := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var e orchestrate.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Type == orchestrate.TaskCompleted && e.Result.State == orchestrate.Done {
			accepted[e.Task]++
		}
	}
	for _, task := range f.work.plan.Tasks {
		if accepted[task.ID] != 1 {
			t.Errorf("%s has %d accepted results", task.ID, accepted[task.ID])
		}
	}
	f.work.checkTree(t, h)
}

// end stops everything and looks for what is left on the machines.
func (f *machines) end() {
	t := f.t
	t.Helper()
	programs := []*fleettest.Process{f.hub}
	for _, w := range f.workers {
		programs = append(programs, w.program)
	}
	slices.Reverse(programs) // the hub last
	for _, p := range programs {
		// One that has only just been started would die of the signal, with what an
		// earlier one has left.
		eventually(t, commandBound, p.Name+" does not start", func() string {
			if said := p.Out.String() + p.Err.String(); !strings.Contains(said, "waits for tasks") && !strings.Contains(said, `"urls"`) {
				return said
			}
			return ""
		})
		if err := p.Stop(commandBound); err != nil {
			t.Error(err)
		} else if code := p.Code(); code != 0 {
			t.Errorf("%s ended with %d:\n%s", p.Name, code, p.Err)
		}
	}
	for _, h := range f.hosts() {
		eventually(t, 30*time.Second, "something is left on "+h.Name, func() string { return strings.Join(h.Left(), "\n") })
		left := h.Files(func(path string) bool {
			return strings.Contains(path, "worktrees"+string(filepath.Separator)) || strings.HasSuffix(path, ".tmp") || strings.HasSuffix(path, ".bundle")
		})
		if len(left) > 0 {
			t.Errorf("left on %s: %q", h.Name, left)
		}
	}
}

func (f *machines) hosts() []*fleettest.Host {
	all := slices.Clone(f.givers)
	for _, w := range f.workers {
		all = append(all, w.Host)
	}
	return all
}
