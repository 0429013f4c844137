package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

const run = "20260101-000000-abcdef"

// yard is a fleet with a scripted coordinator, which speaks as a real one does
// and does what the test says.
type yard struct {
	t     testing.TB
	fleet *fleettest.Fleet
	boss  *fleet.Conn
	repo  *git.Repository
	id    string // of the repository
	begin string // its commit
	root  string // of the worker
	whole bool   // bundles are never thin

	// reply changes an assignment before it is given; nil and no error: no answer.
	reply func(r fleet.ClaimRequest, a *fleet.Assignment) (*fleet.Assignment, error)
	// judge answers a result; nil: it is accepted.
	judge func(r fleet.Result) fleet.OrderKind

	mu       sync.Mutex
	asked    []fleet.ClaimRequest
	given    map[string]fleet.Assignment // by claim
	signs    map[string][]sign
	results  []fleet.Result
	beatBack fleet.OrderKind // what a beat is answered with; "": nothing
}

// errLater is a reply that has the worker ask again.
var errLater = errors.New("later")

type sign struct {
	kind string
	at   time.Time
	beat fleet.Beat
	fleet.Event
}

func newYard(t testing.TB, queues ...string) *yard {
	t.Helper()
	y := &yard{t: t, fleet: fleettest.Up(t), root: filepath.Join(t.TempDir(), "work"), given: map[string]fleet.Assignment{}, signs: map[string][]sign{}}
	y.boss = y.fleet.Coordinator
	dir := t.TempDir()
	y.sh(dir, "git init -q && git config user.name t && git config user.email t@example.com && seq 2000 >numbers && git add . && git commit -qm first")
	var err error
	y.repo, err = git.Open(t.Context(), git.Options{Dir: dir, Environ: os.Environ(), Scratch: t.TempDir()})
	y.must(err)
	t.Cleanup(func() { y.must(y.repo.Close()) })
	y.begin = y.sh(dir, "git rev-parse HEAD")
	y.id, err = bundle.RepoID(t.Context(), y.repo, y.begin)
	y.must(err)
	for _, q := range queues {
		y.queue(q)
	}
	for subject, f := range map[string]func(*nats.Msg){"fleet.claim.*." + run: y.claimed, "fleet.beat.>": y.sign, "fleet.event.>": y.sign} {
		_, err := y.boss.NC.Subscribe(subject, f)
		y.must(err)
	}
	y.must(y.boss.NC.Flush())
	results, err := y.boss.JS.OrderedConsumer(t.Context(), fleet.StreamResults, jetstream.OrderedConsumerConfig{})
	y.must(err)
	listening, err := results.Consume(y.result)
	y.must(err)
	t.Cleanup(func() {
		listening.Stop()
		fleettest.Receive(t, "the end of the results", listening.Closed())
	})
	return y
}

func (y *yard) must(err error) {
	y.t.Helper()
	if err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) sh(dir, line string) string {
	y.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(y.t.Context()), "sh", "-ec", line)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		y.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

// queue makes a queue for tasks that ask for a label; "any" asks for none.
func (y *yard) queue(name string) {
	y.t.Helper()
	var labels []string
	if name != "any" {
		labels = []string{name}
	}
	ctx := y.t.Context()
	queue := fleet.Queue(labels)
	_, err := y.boss.JS.CreateOrUpdateConsumer(ctx, fleet.StreamTasks, jetstream.ConsumerConfig{Durable: queue, FilterSubject: "fleet.task." + queue + ".>",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: fleet.Lease})
	y.must(err)
	table, err := y.boss.JS.KeyValue(ctx, y.fleet.Names(y.t).Of(fleet.TableQueues))
	y.must(err)
	row, err := json.Marshal(fleet.QueueRecord{Schema: fleet.Schema, Labels: labels})
	y.must(err)
	_, err = table.Put(ctx, queue, row)
	y.must(err)
}

// put puts a ticket into a queue.
func (y *yard) put(label, task string) {
	y.t.Helper()
	t := fleet.Ticket{Schema: fleet.Schema, Run: run, Task: task, Attempt: 1, Repo: y.id}
	if label != "any" {
		t.Labels = []string{label}
	}
	y.ticket(t)
}

func (y *yard) ticket(t fleet.Ticket) {
	y.t.Helper()
	data, err := json.Marshal(t)
	y.must(err)
	_, err = y.boss.JS.Publish(y.t.Context(), y.fleet.Names(y.t).To(fleet.TaskSubject(fleet.Queue(t.Labels), t.Run, t.Task)), data)
	y.must(err)
}

// claimed answers a claim as a coordinator does.
func (y *yard) claimed(m *nats.Msg) {
	worker := strings.Split(m.Subject, ".")[2]
	var r fleet.ClaimRequest
	if err := fleet.Decode(m.Data, &r); err != nil {
		y.t.Error(err)
		return
	}
	y.mu.Lock()
	y.asked = append(y.asked, r)
	claim := fmt.Sprintf("claim-%d", len(y.asked))
	y.mu.Unlock()
	a := &fleet.Assignment{Schema: fleet.Schema, Run: r.Ticket.Run, Task: r.Ticket.Task, Attempt: r.Ticket.Attempt, Claim: claim, Repo: y.id, Begin: y.begin, Description: r.Ticket.Task}
	var err error
	if y.whole {
		r.Have = nil
	}
	if a.Bundle, err = y.bundle(worker, claim, r.Have); err != nil {
		y.t.Error(err)
		return
	}
	if y.reply != nil {
		a, err = y.reply(r, a)
	}
	answer := fleet.ClaimReply{Schema: fleet.Schema, Assignment: a}
	switch {
	case errors.Is(err, errLater):
		answer = fleet.ClaimReply{Schema: fleet.Schema, Later: true}
	case err != nil:
		answer = fleet.ClaimReply{Schema: fleet.Schema, Refused: fleet.Refusal(err)}
	case a == nil:
		return
	default:
		y.mu.Lock()
		y.given[a.Claim] = *a
		y.mu.Unlock()
		if err := y.boss.NC.Publish(r.Ack, []byte("+ACK")); err != nil { // a real one keeps it until the end
			y.t.Error(err)
		}
	}
	if err := fleet.Respond(m, worker, answer); err != nil {
		y.t.Error(err)
	}
}

func (y *yard) bundle(worker, claim string, have []string) (fleet.Bundle, error) {
	ctx := context.WithoutCancel(y.t.Context())
	dir, err := os.MkdirTemp("", "yard")
	if err != nil {
		return fleet.Bundle{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bundle")
	b, err := bundle.Make(ctx, y.repo, file, "begin-"+claim, y.begin, have)
	if err != nil || b.Object == "" {
		return b, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return b, err
	}
	store, err := y.boss.JS.ObjectStore(ctx, fleet.WorkerBucket(worker))
	if err == nil {
		_, err = store.PutBytes(ctx, b.Object, data)
	}
	return b, err
}

func (y *yard) sign(m *nats.Msg) {
	words := strings.Split(m.Subject, ".")
	s := sign{kind: words[1], at: time.Now()}
	err := fleet.Decode(m.Data, &s.Event)
	if s.kind == "beat" {
		err = fleet.Decode(m.Data, &s.beat)
	}
	if err != nil {
		y.t.Error(err)
	}
	claim := words[5]
	y.mu.Lock()
	y.signs[claim] = append(y.signs[claim], s)
	back := y.beatBack
	y.mu.Unlock()
	if back != "" && s.kind == "beat" {
		y.order(words[2], fleet.Order{Kind: back, Claim: claim})
	}
}

func (y *yard) result(m jetstream.Msg) {
	var r fleet.Result
	if err := fleet.Decode(m.Data(), &r); err != nil {
		y.t.Error(err)
		return
	}
	words := strings.Split(m.Subject(), ".")
	if m.Headers().Get(nats.MsgIdHdr) != r.Claim || words[5] != r.Claim || words[3] != r.Run || words[4] != fleet.Token(r.Task) {
		y.t.Errorf("the result of %s came on %s with id %s", r.Claim, m.Subject(), m.Headers().Get(nats.MsgIdHdr))
	}
	kind := fleet.OrderAccepted
	if y.judge != nil {
		kind = y.judge(r)
	}
	y.mu.Lock()
	y.results = append(y.results, r)
	y.mu.Unlock()
	if kind != "" {
		y.order(words[2], fleet.Order{Kind: kind, Claim: r.Claim})
	}
}

func (y *yard) order(worker string, o fleet.Order) {
	o.Schema = fleet.Schema
	data, err := json.Marshal(o)
	if err == nil {
		err = y.boss.NC.Publish(fleet.OrderSubject(worker), data)
	}
	if err != nil && y.t.Context().Err() == nil {
		y.t.Log(err)
	}
}

// wait waits for so many results and returns them by task.
func (y *yard) wait(n int) map[string]fleet.Result {
	y.t.Helper()
	fleettest.Wait(y.t, fmt.Sprintf("%d results", n), func() bool {
		y.mu.Lock()
		defer y.mu.Unlock()
		return len(y.results) >= n
	})
	y.mu.Lock()
	defer y.mu.Unlock()
	out := map[string]fleet.Result{}
	for _, r := range y.results {
		out[r.Task] = r
	}
	if len(out) != len(y.results) {
		y.t.Errorf("%d results of %d tasks", len(y.results), len(out))
	}
	return out
}

// wantNothing checks that no result came.
func (y *yard) wantNothing() {
	y.t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.results) != 0 {
		y.t.Errorf("the results are %v", y.results)
	}
}

// kept is how many results the server has.
func (y *yard) kept() uint64 {
	y.t.Helper()
	stream, err := y.boss.JS.Stream(y.t.Context(), fleet.StreamResults)
	y.must(err)
	return stream.CachedInfo().State.Msgs
}

// seen waits until the one worker is there, and its last hello is as it should be.
func (y *yard) seen(what string, holds func(*fleet.Hello) bool) {
	y.t.Helper()
	fleettest.Wait(y.t, what, func() bool {
		s, err := fleet.GetStatus(y.t.Context(), y.boss)
		return err == nil && len(s.Workers) == 1 && s.Workers[0].Online && holds(s.Workers[0].Hello)
	})
}

// fetch checks a result's bundle, as a coordinator does, and returns its files.
func (y *yard) fetch(worker string, r fleet.Result) string {
	y.t.Helper()
	store, err := y.boss.JS.ObjectStore(y.t.Context(), fleet.WorkerBucket(worker))
	y.must(err)
	object, err := store.Get(y.t.Context(), r.Bundle.Object)
	y.must(err)
	defer object.Close()
	y.must(bundle.Receive(y.t.Context(), y.repo, object, r.Bundle, bundle.Expect{Name: r.Claim, Commit: r.Commit, Parent: y.begin}))
	return y.sh(y.repo.Top, "git ls-tree --name-only "+r.Commit)
}

// worker is a Run in this process.
type running struct {
	y      *yard
	conn   *fleet.Conn
	id     string
	cancel context.CancelFunc
	ended  chan error
}

func ready() Ready { return Ready{Answers: "github", Models: []string{"gpt-5"}} }

// start starts a worker that does what attempt says.
func (y *yard) start(o Options) *running {
	y.t.Helper()
	conn := y.fleet.Worker(y.t, "w", "k=a", "k=b")
	ctx, cancel := context.WithCancel(context.WithoutCancel(y.t.Context()))
	r := &running{y: y, conn: conn, id: conn.Member.ID, cancel: cancel, ended: make(chan error, 1)}
	if o.Root = y.root; o.Capacity == 0 {
		o.Capacity = 1
	}
	if o.Ready == nil {
		o.Ready = ready
	}
	o.Environ, o.Version = os.Environ(), "test"
	if testing.Verbose() {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	ended := r.ended
	go func() { ended <- Run(ctx, conn, o) }()
	y.t.Cleanup(func() { r.stop() })
	return r
}

// stop ends the worker and checks that nothing is left of it.
func (r *running) stop() {
	r.cancel()
	_ = r.end(nil) // it has told the test of an error
}

// end waits until Run has returned an error that says so.
func (r *running) end(says error) error {
	r.y.t.Helper()
	if r.ended == nil {
		return nil
	}
	ended := r.ended
	r.ended = nil
	err := fleettest.Receive(r.y.t, "the worker's end", ended)
	if says == nil && err != nil {
		r.y.t.Errorf("the worker ended with %v", err)
	}
	if n := r.conn.NC.NumSubscriptions(); n > 2 { // those of the client for answers
		r.y.t.Errorf("%d subscriptions are left", n)
	}
	for _, name := range r.y.left() {
		r.y.t.Errorf("%s is left", name)
	}
	return err
}

// left lists files of the worker's directory that are no part of mirrors, and
// what mirrors know of worktrees.
func (y *yard) left() []string {
	y.t.Helper()
	var out []string
	y.must(filepath.WalkDir(y.root, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(y.root, path)
		first, rest, _ := strings.Cut(filepath.ToSlash(name), "/")
		switch {
		case err != nil:
			return err
		case name == ".", name == "lock", first == "mirrors" && !strings.Contains(rest, "/worktrees/") && (strings.HasSuffix(rest, ".git.lock") || !strings.HasSuffix(strings.TrimSuffix(rest, ".lock"), ".lock")):
		default:
			out = append(out, name)
		}
		return nil
	}))
	return out
}

// commit is an attempt in a session that writes a file and commits it through git.
func commit(ctx context.Context, j Job) (Done, error) {
	needs := []orchestrate.TaskResult{}
	for _, n := range j.Needs {
		needs = append(needs, orchestrate.TaskResult{ID: n.ID, State: orchestrate.Done, Outcome: orchestrate.Outcome{Summary: n.Summary}})
	}
	out, err := orchestrate.Attempt(ctx, orchestrate.AttemptOptions{Repo: j.Repo, Dir: j.Dir,
		RemoteWork: orchestrate.RemoteWork{Run: j.Run, Goal: j.Goal, Begin: j.Begin, Prefix: j.Prefix,
			Assignment: orchestrate.Assignment{Attempt: j.Attempt, Task: orchestrate.SubTask{ID: j.Task, Description: j.Description}, Needs: needs}},
		Open: func(_ context.Context, o orchestrate.Opening) (orchestrate.Session, error) {
			return &session{dir: o.Dir, task: j.Task}, nil
		},
	}, func(p orchestrate.Progress) { j.Report(fleet.Event{Text: p.Text, Usage: p.Usage, Session: "session"}) })
	return Done{Commit: out.Work, Summary: out.Summary, Usage: out.Usage, Tools: out.Tools, Session: out.Session}, err
}

type session struct{ dir, task string }

func (s *session) ID() string                  { return "session" }
func (s *session) Close(context.Context) error { return nil }

func (s *session) Send(ctx context.Context, _ bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		cmd := exec.CommandContext(ctx, "git", "-c", "user.name=w", "-c", "user.email=w@example.com", "commit", "-qm", s.task)
		cmd.Dir = s.dir
		err := os.WriteFile(filepath.Join(s.dir, "done-"+fleet.Token(s.task)), []byte("done\n"), 0o600)
		if err == nil {
			add := exec.CommandContext(ctx, "git", "add", ".")
			add.Dir = s.dir
			err = add.Run()
		}
		if err == nil {
			err = cmd.Run()
		}
		if err != nil {
			yield(nil, err)
			return
		}
		_ = yield(bridge.MessageDone{Text: "did " + s.task}, nil) &&
			yield(bridge.UsageReported{Usage: bridge.Usage{Calls: 1}}, nil) &&
			yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil)
	}
}
