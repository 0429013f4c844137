package fleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// chaos lets machines of a fleet fail while a run goes on.
type chaos struct {
	*machines
	rng   *rand.Rand
	owner int                // the giver that has the run
	run   *fleettest.Process // of the owner
	count map[string]int
	known bool // see begun
}

const hubPort = "4222"

// TestChaos does a plan while the machines of the fleet are killed, frozen and cut
// off at random. However it goes, each task has one result, the tree is as it
// would be on one machine, and nothing is left.
func TestChaos(t *testing.T) {
	seed := seedOf(t)
	net := fleettest.NewNetwork(t, 5, seed)
	net.Slow(5*time.Millisecond, 0.01)
	f := newFleet(t, net, "--listen", net.Host(1).Address+":"+hubPort)
	f.prepare(makeWork(rand.New(rand.NewPCG(seed, 2)), tasks(t)))
	c := &chaos{machines: f, rng: rand.New(rand.NewPCG(seed, 3)), owner: 1, count: map[string]int{}}
	began := time.Now()
	c.run = f.begin(f.givers[c.owner])
	c.causeFaults()
	select {
	case <-c.run.Ended:
	case <-time.After(20 * time.Minute):
		t.Fatalf("the run does not end:\n%s", c.run.Err)
	}
	t.Logf("%d tasks: %s; %v", len(f.work.plan.Tasks), time.Since(began).Round(time.Second), c.count)
	f.checkRun(f.givers[c.owner], c.run)
	f.end()
}

// causeFaults causes one fault after another until the run has ended, each of them
// once before any comes again.
func (c *chaos) causeFaults() {
	faults := map[string]func(){
		"worker killed": c.killWorker, "worker without power": c.powerOff, "worker frozen": c.freezeWorker, "worker cut off": c.cutWorker,
		"hub killed": c.killHub, "hub frozen": c.freezeHub, "hub cut off": c.cutHub,
		"owner killed": c.killOwner, "owner frozen": c.freezeOwner, "owner cut off": c.cutOwner,
	}
	names := slices.Sorted(maps.Keys(faults))
	for {
		c.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			select {
			case <-c.run.Ended:
				return
			case <-time.After(c.between(time.Second, 4*time.Second)):
			}
			began := time.Now()
			faults[name]()
			c.count[name]++
			c.t.Logf("%s %s, for %s", began.Format("15:04:05.000"), name, time.Since(began).Round(100*time.Millisecond))
		}
	}
}

func (c *chaos) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rng.Int64N(int64(most-least)))
}

// pause lets a fault last. Now and then it lasts longer than a lease.
func (c *chaos) pause() {
	d := c.between(time.Second, 5*time.Second)
	if c.rng.IntN(4) == 0 {
		d = c.between(15*time.Second, 20*time.Second)
	}
	<-time.After(d)
}

func (c *chaos) anyWorker() *worker { return c.workers[c.rng.IntN(len(c.workers))] }

func (c *chaos) killWorker() {
	w := c.anyWorker()
	w.program.Kill()
	<-w.program.Ended
	c.startWorker(w)
}

func (c *chaos) powerOff() {
	w := c.anyWorker()
	w.PowerOff()
	<-w.program.Ended
	c.pause()
	c.startWorker(w)
}

func (c *chaos) freezeWorker() {
	w := c.anyWorker()
	w.Freeze()
	c.pause()
	w.Thaw()
}

func (c *chaos) cutWorker() {
	w := c.anyWorker()
	c.net.Cut(w.Host)
	c.pause()
	c.net.Heal(w.Host)
}

func (c *chaos) killHub() {
	c.hub.Kill()
	<-c.hub.Ended
	<-time.After(c.between(0, 3*time.Second))
	c.startHub()
}

// freezeHub stops all of the first machine, so also its run, if it has it.
func (c *chaos) freezeHub() {
	c.givers[0].Freeze()
	c.pause()
	c.givers[0].Thaw()
}

func (c *chaos) cutHub() {
	c.net.Cut(c.givers[0])
	c.pause()
	c.net.Heal(c.givers[0])
}

// begun says whether the fleet has the run on record, so that it can be resumed.
func (c *chaos) begun() bool {
	c.known = c.known || strings.Contains(c.run.Out.String(), string(orchestrate.RunStarted))
	return c.known
}

func (c *chaos) killOwner() {
	if !c.begun() {
		return
	}
	c.run.Kill()
	<-c.run.Ended
	if c.run.Code() == 0 {
		return // it was quicker
	}
	c.takeOver(c.rng.IntN(len(c.givers)))
}

// freezeOwner lets another machine take over from an owner that hangs. The owner
// must notice when it goes on.
func (c *chaos) freezeOwner() {
	old, was := c.run, c.owner
	if was == 0 || !c.begun() {
		return // the hub is there, or there is no run yet
	}
	c.givers[was].Freeze()
	if strings.Contains(old.Out.String(), string(orchestrate.MergeStarted)) {
		c.givers[was].Thaw()
		return // nothing is left to be taken over
	}
	c.takeOver(0)
	c.givers[was].Thaw()
	select {
	case <-old.Ended:
		if old.Code() == 0 {
			c.t.Errorf("an owner delivered a run that was taken over:\n%s", old.Err)
		}
	case <-time.After(commandBound):
		c.t.Fatalf("an owner does not notice that its run was taken over:\n%s", old.Err)
	}
}

func (c *chaos) cutOwner() {
	h := c.givers[c.owner]
	c.net.Cut(h)
	c.pause()
	c.net.Heal(h)
}

// takeOver goes on with the run on a machine. While the fleet still counts its
// owner among the living, that is refused.
func (c *chaos) takeOver(giver int) {
	c.owner = giver
	eventually(c.t, 2*time.Minute, "the run cannot be resumed", func() string {
		c.run = c.resume(c.givers[giver])
		select {
		case <-c.run.Ended: // refused, or soon done
			if r, err := resultOf(c.run); err != nil || !r.Success {
				<-time.After(2 * time.Second)
				return fmt.Sprintf("%d: %s", c.run.Code(), c.run.Err)
			}
		case <-time.After(10 * time.Second): // it goes on
		}
		return ""
	})
}
