package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// sleeper is an executor in virtual time that checks what it is given.
type sleeper struct {
	t      *testing.T
	g      *graph
	limit  int
	takes  []time.Duration
	fails  map[int]bool
	mu     sync.Mutex
	now    int
	most   int
	times  []int // how often each task was executed
	ended  []bool
	failed []bool
}

var errPlanted = &bridge.Error{Code: bridge.CodeInternal, Message: "planted"}

func newSleeper(t *testing.T, g *graph, limit int) *sleeper {
	n := len(g.order)
	return &sleeper{t: t, g: g, limit: limit, takes: make([]time.Duration, n), fails: map[int]bool{}, times: make([]int, n), ended: make([]bool, n), failed: make([]bool, n)}
}

func (s *sleeper) Execute(ctx context.Context, a Assignment, _ func(Progress)) (Outcome, error) {
	i := s.g.index[a.Task.ID]
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.times[i]++
	for _, j := range s.g.needs[i] {
		if !s.ended[j] || s.failed[j] {
			s.t.Errorf("%s began before %s was done", a.Task.ID, s.g.plan.Tasks[j].ID)
		}
	}
	if len(a.Needs) != len(s.g.needs[i]) {
		s.t.Errorf("%s was told of %d of %d", a.Task.ID, len(a.Needs), len(s.g.needs[i]))
	}
	s.mu.Unlock()
	time.Sleep(s.takes[i]) // virtual
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	s.ended[i], s.failed[i] = true, s.fails[i]
	if s.fails[i] {
		return Outcome{}, errPlanted
	}
	return Outcome{Summary: a.Task.ID}, ctx.Err()
}

// waves is how long going wave by wave would take: each wave in the same
// order as the scheduler's, with a barrier after it.
func (s *sleeper) waves() time.Duration {
	order := s.g.inWaves()
	over := make([]bool, len(order)) // failed or skipped
	var now time.Duration
	for at := 0; at < len(order); {
		free := make([]time.Duration, s.limit) // when each place is free
		wave := s.g.wave[order[at]]
		for ; at < len(order) && s.g.wave[order[at]] == wave; at++ {
			i := order[at]
			over[i] = s.fails[i]
			skipped := slices.ContainsFunc(s.g.needs[i], func(j int) bool { return over[j] })
			if skipped {
				over[i] = true
				continue
			}
			k := 0
			for p := range free {
				if free[p] < free[k] {
					k = p
				}
			}
			free[k] += s.takes[i]
		}
		now += slices.Max(free)
	}
	return now
}

// run runs the plan and checks everything that must always hold.
func (s *sleeper) run(c chooser) (makespan time.Duration) {
	s.t.Helper()
	counts := map[string]int{}
	var mu sync.Mutex
	began := time.Now()
	results, err := runGraph(s.t.Context(), s.g, s, Schedule{Limit: s.limit, MaxRetries: 3, Emit: func(e Event) error {
		mu.Lock()
		defer mu.Unlock()
		if e.Type == TaskCompleted || e.Type == TaskSkipped {
			counts[e.Task]++
		}
		return nil
	}}, c)
	makespan = time.Since(began)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.most > s.limit {
		s.t.Errorf("%d at a time, the limit is %d", s.most, s.limit)
	}
	doomed := make([]bool, len(results))
	for i := range results {
		if s.fails[i] {
			s.g.below(i, func(d int) { doomed[d] = true })
		}
	}
	for i, r := range results {
		want, times := Done, 1
		switch {
		case doomed[i]:
			want, times = Skipped, 0
		case s.fails[i]:
			want = Failed
		}
		if r.State != want || s.times[i] != times || counts[r.ID] != 1 || r.Success != (want == Done) {
			s.t.Errorf("%s: %s, executed %d times, %d events; want %s", r.ID, r.State, s.times[i], counts[r.ID], want)
		}
	}
	return makespan
}

// TestScheduleProperties runs random plans with random times and failures in
// virtual time.
func TestScheduleProperties(t *testing.T) {
	const graphs = 1500
	rng := rand.New(rand.NewPCG(20261115, 7))
	above, scarce, worst := 0, 0, 1.0
	for k := range graphs {
		p := randomPlan(rng, families[k%4], 1+rng.IntN(40))
		g, err := newGraph(p)
		if err != nil {
			t.Fatal(err)
		}
		limit := 1 + rng.IntN(6)
		synctest.Test(t, func(t *testing.T) {
			s := newSleeper(t, g, limit)
			for i := range s.takes {
				s.takes[i] = time.Duration(p.Tasks[i].EstimatedComplexity.weight()) * time.Second
				if k%3 > 0 { // times unlike expected
					s.takes[i] = time.Duration(rng.ExpFloat64() * float64(s.takes[i]))
				}
				s.fails[i] = k%2 > 0 && rng.IntN(12) == 0
			}
			rule, waves := choose(g, limit, false), s.waves()
			if got := s.run(rule); got > waves {
				t.Errorf("graph %d: %s, wave by wave %s", k, got, waves)
			}
			if rule.window == len(g.order) { // eager
				return
			}
			// Always eager, it is nearly always faster still; but not always.
			scarce++
			keen := newSleeper(t, g, limit)
			keen.takes, keen.fails = s.takes, s.fails
			got := keen.run(newEager(g))
			if ratio := float64(got) / float64(max(waves, 1)); ratio > 1 {
				above++
				worst = max(worst, ratio)
			}
			if bound := 2 - 1/float64(limit); float64(got) > bound*float64(waves) { // Graham's, for every order
				t.Errorf("graph %d: %s is above %.2f times the waves' %s", k, got, bound, waves)
			}
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d plans, never slower than wave by wave; always eager, %d of the %d with fewer places than the widest wave would be slower, at worst %.3f times",
		graphs, above, scarce, worst)
}

// TestGainOverWaves prints what not waiting for waves gains on the set of
// random graphs.
func TestGainOverWaves(t *testing.T) {
	rng := rand.New(rand.NewPCG(50, 2002))
	for _, limit := range []int{3, 8} {
		var all, keen float64
		for _, family := range families {
			const each = 60
			var sum, eagerSum float64
			for range each {
				g, err := newGraph(randomPlan(rng, family, 50))
				if err != nil {
					t.Fatal(err)
				}
				weight := func(i int) int64 { return g.plan.Tasks[i].EstimatedComplexity.weight() }
				waves := predict(g, limit, &byWaves{g: g, order: g.inWaves()}, weight)
				ours := predict(g, limit, choose(g, limit, false), weight)
				if ours > waves {
					t.Errorf("%s: %d, wave by wave %d", family, ours, waves)
				}
				sum += 1 - float64(ours)/float64(waves)
				eagerSum += 1 - float64(predict(g, limit, newEager(g), weight))/float64(waves)
			}
			all, keen = all+sum/each, keen+eagerSum/each
			t.Logf("%d places, %s, 50 tasks: %.1f %% less time than wave by wave (eager %.1f %%), mean of %d graphs", limit, family, 100*sum/each, 100*eagerSum/each, each)
		}
		t.Logf("%d places: mean gain over waves %.1f %% (eager %.1f %%)", limit, 25*all, 25*keen)
	}
}

// With a place for every task of a wave nothing waits for anything but what it
// depends on.
func TestNoBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := TaskPlan{Tasks: []SubTask{{"long", "x", Large}, {"short", "x", Small}, {"after-short", "x", Small}, {"after-long", "x", Small}},
			Dependencies: map[string][]string{"after-short": {"short"}, "after-long": {"long"}}}
		began, start := time.Now(), map[string]time.Duration{}
		var mu sync.Mutex
		_, err := RunPlan(t.Context(), p, doing(func(_ context.Context, a Assignment) (Outcome, error) {
			mu.Lock()
			start[a.Task.ID] = time.Since(began)
			mu.Unlock()
			time.Sleep(time.Duration(a.Task.EstimatedComplexity.weight()) * time.Second) // virtual
			return Outcome{}, nil
		}), Schedule{Limit: 2})
		if err != nil || start["after-short"] != time.Second || start["after-long"] != 9*time.Second {
			t.Error(err, start)
		}
	})
}

func line(t *testing.T, ids ...string) *graph {
	t.Helper()
	p := TaskPlan{Dependencies: map[string][]string{}}
	for i, id := range ids {
		p.Tasks = append(p.Tasks, SubTask{ID: id, Description: "x", EstimatedComplexity: Small})
		if i > 0 {
			p.Dependencies[id] = []string{ids[i-1]}
		}
	}
	g, err := newGraph(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// doing is an Executor made of a function.
type doing func(ctx context.Context, a Assignment) (Outcome, error)

func (d doing) Execute(ctx context.Context, a Assignment, _ func(Progress)) (Outcome, error) {
	return d(ctx, a)
}

func TestRetriesByClass(t *testing.T) {
	for _, tt := range []struct {
		name     string
		err      error
		attempts int
		pause    time.Duration
	}{
		{"rate limit", &bridge.Error{Code: bridge.CodeRateLimited, RetryAfter: 20 * time.Second}, 6, 5 * 20 * time.Second},
		{"transient", &bridge.Error{Code: bridge.CodeProvider, Status: 503}, 3, 3 * time.Second},
		{"crash", &bridge.Error{Code: bridge.CodeCrashed}, 3, 3 * time.Second},
		{"denied", &bridge.Error{Code: bridge.CodeDenied}, 1, 0},
		{"any other", errors.New("x"), 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, retries := time.Now(), 0
				r, err := runGraph(t.Context(), line(t, "a", "b"), doing(func(context.Context, Assignment) (Outcome, error) { return Outcome{}, tt.err }),
					Schedule{MaxRetries: 5, Emit: func(e Event) error {
						if e.Type == TaskRetry {
							retries++
						}
						return nil
					}}, newEager(line(t, "a", "b")))
				if err != nil || r[0].Attempts != tt.attempts || retries != tt.attempts-1 || time.Since(began) != tt.pause || r[0].State != Failed || r[1].State != Skipped {
					t.Errorf("%v: %+v after %s", err, r, time.Since(began))
				}
			})
		})
	}
}

func TestRetryThatHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := RunPlan(t.Context(), line(t, "a", "b").plan, doing(func(_ context.Context, a Assignment) (Outcome, error) {
			if a.Task.ID == "a" && a.Attempt == 1 {
				return Outcome{}, &bridge.Error{Code: bridge.CodeBusy}
			}
			return Outcome{}, nil
		}), Schedule{MaxRetries: 3})
		if err != nil || r[0].State != Done || r[0].Attempts != 2 || r[1].State != Done || r[0].Error != nil {
			t.Errorf("%v: %+v", err, r)
		}
	})
}

func hang(ctx context.Context, _ Assignment) (Outcome, error) {
	<-ctx.Done()
	return Outcome{}, ctx.Err()
}

func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := RunPlan(t.Context(), line(t, "a", "b").plan, doing(hang), Schedule{TaskTimeout: time.Minute})
		if err != nil || r[0].State != Failed || r[0].Error.Code != bridge.CodeTimeout || r[0].Duration != time.Minute || r[1].State != Skipped {
			t.Errorf("%v: %+v", err, r)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, &bridge.Error{Code: bridge.CodeTimeout, Message: "too long"})
		defer cancel()
		r, err := RunPlan(ctx, line(t, "a", "b").plan, doing(hang), Schedule{})
		if err != nil || r[0].State != Failed || r[0].Error.Message != "too long" || r[1].State != Skipped {
			t.Errorf("%v: %+v", err, r)
		}
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "interrupted"}) })
		ends := 0
		r, err := RunPlan(ctx, line(t, "a", "b", "c").plan, doing(hang), Schedule{Limit: 3, MaxRetries: 3, Emit: func(e Event) error {
			if e.Type == TaskCompleted || e.Type == TaskSkipped {
				ends++
			}
			return nil
		}})
		if err != nil || ends != 3 {
			t.Error(err, ends)
		}
		for _, x := range r {
			if x.State != Canceled {
				t.Errorf("%+v", x)
			}
		}
	})
}

// A cancellation while a task waits to be tried again ends the wait.
func TestCancelBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, cancel)
		r, err := RunPlan(ctx, line(t, "a").plan, doing(func(context.Context, Assignment) (Outcome, error) {
			return Outcome{}, &bridge.Error{Code: bridge.CodeRateLimited, RetryAfter: time.Hour}
		}), Schedule{MaxRetries: 3})
		if err != nil || r[0].State != Canceled || time.Since(began) != time.Second {
			t.Errorf("%v: %+v after %s", err, r, time.Since(began))
		}
	})
}

// A journal that cannot be written ends the run.
func TestEmitFailure(t *testing.T) {
	full := errors.New("disk full")
	started := 0
	r, err := RunPlan(t.Context(), line(t, "a", "b").plan, doing(func(context.Context, Assignment) (Outcome, error) { return Outcome{}, nil }),
		Schedule{Emit: func(e Event) error {
			if e.Type == TaskStarted {
				started++
			}
			if e.Type == TaskCompleted {
				return full
			}
			return nil
		}})
	if !errors.Is(err, full) || started != 1 || r[1].State.Ended() == false {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestDoneIsNotRepeated(t *testing.T) {
	var ran []string
	r, err := RunPlan(t.Context(), line(t, "a", "b", "c").plan, doing(func(_ context.Context, a Assignment) (Outcome, error) {
		ran = append(ran, fmt.Sprint(a.Task.ID, a.Needs[0].Summary))
		return Outcome{Summary: "did " + a.Task.ID}, nil
	}), Schedule{Done: map[string]TaskResult{"a": {ID: "a", State: Done, Success: true, Outcome: Outcome{Summary: "did a before"}}}})
	if err != nil || !slices.Equal(ran, []string{"bdid a before", "cdid b"}) || r[0].Summary != "did a before" {
		t.Errorf("%v: %v %+v", err, ran, r)
	}
}
