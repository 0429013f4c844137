package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

// The delays of the slow model are those of real models: to the first word, and
// for each of twenty words.
const (
	slowFirst = 2 * time.Second
	slowChunk = 50 * time.Millisecond
	slowly    = "slowly"
)

func slowModel(b *testing.B) *demomodel.Server {
	b.Helper()
	m := startModel(b)
	reply := demomodel.Reply{demomodel.Delay(slowFirst)}
	for c := 'a'; c <= 't'; c++ {
		reply = append(reply, demomodel.Chunks(string(c)), demomodel.Delay(slowChunk))
	}
	m.Handle(func(r demomodel.Request) (demomodel.Reply, bool) { return reply, bytes.Contains(r.Raw, []byte(slowly)) })
	return m
}

// slowCaller sends requests over HTTP. It reads as little as possible to
// influence the measurement as little as possible.
type slowCaller struct {
	s     *server
	body  []byte
	agent string
}

// slowCallers are n concurrent requests of one program.
func slowCallers(s *server, m *demomodel.Server, agent string, n int) []turner {
	body := fmt.Appendf(nil, `{"model":%q,"stream":true,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%q}]}`, m.Model(), slowly)
	return slices.Repeat([]turner{&slowCaller{s, body, agent}}, n)
}

var errRefused = errors.New("refused")

func (c *slowCaller) turn(ctx context.Context) (first time.Duration, err error) {
	began := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.s.url+"/v1/chat/completions", bytes.NewReader(c.body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", c.agent)
	resp, err := c.s.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		if resp.StatusCode == http.StatusTooManyRequests {
			return time.Since(began), errRefused
		}
		return 0, fmt.Errorf("%s: %s", resp.Status, body)
	}
	var text []byte
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if _, rest, ok := bytes.Cut(lines.Bytes(), []byte(`"content":"`)); ok && rest[0] != '"' {
			if text = append(text, rest[0]); first == 0 {
				first = time.Since(began)
			}
		}
	}
	if string(text) != "abcdefghijklmnopqrst" {
		return 0, fmt.Errorf("the answer is %q", text)
	}
	return first, nil
}

func (*slowCaller) reset(context.Context) error { return nil }

// slowBare distributes sessions over as many runtimes as the bridge has.
func slowBare(ctx context.Context, b *testing.B, m *demomodel.Server, runtimes, n int) (all []turner) {
	b.Helper()
	var clients []*copilot.Client
	for range runtimes {
		c := bareClient(b, m)
		if err := c.Start(ctx); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Stop() })
		clients = append(clients, c)
	}
	for i := range n {
		x, err := newBare(ctx, clients[i%runtimes], m)
		if err != nil {
			b.Fatal(err)
		}
		x.prompt = slowly
		all = append(all, x)
	}
	return all
}

// burst is the result of many concurrent turns.
type burst struct {
	first []time.Duration
	rate  float64 // turns per second
	most  int     // peak memory in KB
}

// runConcurrently runs turns in all sessions concurrently and measures the
// memory meanwhile.
func runConcurrently(ctx context.Context, b *testing.B, side []turner, turns int, memory func() int) (out burst) {
	b.Helper()
	began := time.Now()
	first := make([][]time.Duration, len(side))
	errs := make([]error, len(side))
	var wg, looking sync.WaitGroup
	for i, t := range side {
		wg.Go(func() { first[i], errs[i] = measure(ctx, t, turns) })
	}
	over := make(chan struct{})
	looking.Go(func() {
		for tick := time.Tick(200 * time.Millisecond); memory != nil; {
			select {
			case <-tick:
				out.most = max(out.most, memory())
			case <-over:
				return
			}
		}
	})
	wg.Wait()
	took := time.Since(began)
	close(over)
	looking.Wait()
	if err := cmp.Or(errs...); err != nil {
		b.Fatal(err)
	}
	out.first = slices.Concat(first...)
	out.rate = float64(len(out.first)) / took.Seconds()
	return out
}

// children lists the child processes of a process.
func children(pid int) (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		children, _ := os.ReadFile(t)
		for _, child := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// treeKB is the memory of a process and all its descendants.
func treeKB(pid int) int {
	sum := statusKB(pid, "VmRSS:")
	for _, child := range children(pid) {
		sum += treeKB(child)
	}
	return sum
}

// bareKB is the memory of the bare runtimes, which are child processes of this
// process. This process itself is not counted, which favours the bare SDK.
func bareKB() (sum int) {
	for _, pid := range children(os.Getpid()) {
		if isRuntime(pid) {
			sum += statusKB(pid, "VmRSS:")
		}
	}
	return sum
}

func isRuntime(pid int) bool {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.HasPrefix(string(name), "copilot-runtime")
}

// runtimes counts the runtimes below a bridge.
func runtimes(pid int) (n int) {
	for _, child := range children(pid) {
		if n += runtimes(child); isRuntime(child) {
			n++
		}
	}
	return n
}

// serveSlow starts a bridge that accepts many concurrent requests.
func serveSlow(b *testing.B, m *demomodel.Server) *server {
	b.Helper()
	s := startServe(b, m)
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
	b.Cleanup(s.http.CloseIdleConnections)
	return s
}

func median(f []float64) float64 { return slices.Sorted(slices.Values(f))[len(f)/2] }

// BenchmarkSlowModel has many concurrent callers and a slow model. Callers get
// their first word soon after the model sends it, and no request is refused.
// With 200 callers the bridge has the same throughput as the bare SDK with as
// many runtimes and one session per caller. The bare SDK's delay at each number
// shows how much of a delay comes from the machine.
func BenchmarkSlowModel(b *testing.B) {
	ctx, m := context.Background(), slowModel(b)
	s := serveSlow(b, m)
	const most = 256
	facade := slowCallers(s, m, "bench", most)
	runConcurrently(ctx, b, facade, 1, nil) // starts all runtimes
	bare := slowBare(ctx, b, m, runtimes(s.pid), most)
	// pair runs both sides one after the other. The sessions are created
	// before: the bridge closes them when idle.
	pair := func(n int, bareFirst bool) (out [2]burst) {
		order := []int{1, 0}
		if bareFirst {
			order = []int{0, 1}
		}
		for _, k := range order {
			side := [][]turner{bare, facade}[k][:n]
			runConcurrently(ctx, b, side, 1, nil)
			out[k] = runConcurrently(ctx, b, side, 2, nil)
		}
		return out
	}
	for b.Loop() {
		for _, x := range []struct {
			callers int
			above   time.Duration
		}{{16, 100 * time.Millisecond}, {64, 100 * time.Millisecond}, {128, 200 * time.Millisecond}, {most, 500 * time.Millisecond}} {
			got := pair(x.callers, true)
			p, q := percentile(got[0].first, 0.5), percentile(got[1].first, 0.5)
			report(fmt.Sprintf("slow model, first word p50 at %d", x.callers), ms(p), ms(q), "+"+ms(q-slowFirst), "≤ +"+ms(x.above), q-slowFirst <= x.above)
			b.ReportMetric((q-slowFirst).Seconds()*1000, fmt.Sprintf("ms-late-at-%d", x.callers))
		}
		var rates, tails []float64
		var last [2]burst
		for round := range 3 {
			last = pair(200, round%2 == 0)
			rates = append(rates, last[1].rate/last[0].rate)
			tails = append(tails, float64(percentile(last[1].first, 0.99))/float64(percentile(last[0].first, 0.99)))
		}
		r, t := median(rates), median(tails)
		report("slow model, requests/s at 200", fmt.Sprintf("%.1f/s", last[0].rate), fmt.Sprintf("%.1f/s", last[1].rate), fmt.Sprintf("%.1f %%", 100*r), "≥ 95 %", r >= 0.95)
		report("slow model, first word p99 at 200", ms(percentile(last[0].first, 0.99)), ms(percentile(last[1].first, 0.99)), fmt.Sprintf("%.2f×", t), "≤ 1×", t <= 1)
		b.ReportMetric(100*r, "%-of-bare-at-200")
	}
}

// BenchmarkSlowMemory compares the memory per open stream. All processes of the
// bridge may need at most 1.2 times the memory of the bare SDK's runtimes. Both
// sides restart for each number, because sessions grow with age.
func BenchmarkSlowMemory(b *testing.B) {
	ctx, m := context.Background(), slowModel(b)
	for _, n := range []int{200, 500} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := serveSlow(b, m)
			for b.Loop() {
				ours := float64(runConcurrently(ctx, b, slowCallers(s, m, "bench", n), 2, func() int { return treeKB(s.pid) }).most) / float64(n)
				bare := slowBare(ctx, b, m, runtimes(s.pid), n)
				theirs := float64(runConcurrently(ctx, b, bare, 2, bareKB).most) / float64(n)
				mb := func(kb float64) string { return fmt.Sprintf("%.2f MB", kb/1024) }
				report(fmt.Sprintf("memory of an open stream at %d", n), mb(theirs), mb(ours), fmt.Sprintf("%.2f×", ours/theirs), "≤ 1.2×", ours <= 1.2*theirs)
				b.ReportMetric(ours/theirs, "times-bare")
			}
		})
	}
}

// BenchmarkOverload checks fairness: while one program has a thousand requests
// in progress, more than the bridge can serve, single requests of another
// program get their first word at most one second late, and none is refused.
func BenchmarkOverload(b *testing.B) {
	ctx, m := context.Background(), slowModel(b)
	s := serveSlow(b, m)
	single := slowCallers(s, m, "single", 1)
	for b.Loop() {
		crowd, stop := context.WithTimeout(ctx, 40*time.Second)
		var wg sync.WaitGroup
		for _, t := range slowCallers(s, m, "crowd", 1000) {
			wg.Go(func() {
				for crowd.Err() == nil {
					if _, err := t.turn(crowd); errors.Is(err, errRefused) {
						select {
						case <-time.After(time.Second):
						case <-crowd.Done():
						}
					}
				}
			})
		}
		<-time.After(8 * time.Second) // until the queue is full
		var first []time.Duration
		for crowd.Err() == nil {
			first = append(first, runConcurrently(ctx, b, single, 1, nil).first...)
		}
		stop()
		wg.Wait()
		late := percentile(first, 0.5) - slowFirst
		report("overload, first word of another", "", ms(slowFirst+late), fmt.Sprintf("p99 %s", ms(percentile(first, 0.99))), "≤ +1 s", late <= time.Second)
		b.ReportMetric(late.Seconds()*1000, "ms-late")
	}
}
