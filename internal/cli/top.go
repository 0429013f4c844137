package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

func (p *program) topCommand() *cobra.Command {
	cmd := complete(&cobra.Command{
		Use:   "top",
		Short: "Watch and steer all sessions in the terminal",
		Long: `Watch all sessions of every process of the bridge: serve, run, chat, mcp, acp and orchestrate.
Answer their questions, follow what they do, stop them or send them a message. No server
is needed.

Where the output is no terminal, what goes on now is printed once. Questions are answered by
a person at a terminal only: no flag does it, and neither does a program that an agent has
started.`,
		Example: `  copilot-bridge top
  copilot-bridge top --json | jq '.approvals[].lead'
  copilot-bridge top > now.txt`,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runTop(cmd) },
	})
	flagsOf(cmd).json("write what goes on now as JSON, once")
	return cmd
}

// runTop shows the board, or prints it where nobody could press a key.
func (p *program) runTop(cmd *cobra.Command) error {
	var resume string
	err := p.configured(cmd, nil, func(ctx context.Context, c call) error {
		if p.json || !p.console.OutTTY || !p.env.IsTerminal(p.env.Stdin) {
			b, err := readBoard(c.cfg)
			if err != nil {
				return err
			}
			width := 0 // no limit in a pipe
			if p.env.IsTerminal(p.env.Stdout) {
				width = p.env.Width(p.env.Stdout)
			}
			return p.show(b, b.Text(width, p.env.HomeDir))
		}
		var err error
		resume, err = p.watchTop(ctx, c.cfg)
		return ended(err)
	})
	if err != nil || resume == "" {
		return err
	}
	o := &runOptions{}
	o.resume = resume
	return p.runChat(cmd, o)
}

// boardPoll is how often the files of the home are looked at.
const boardPoll = 200 * time.Millisecond

// watchTop shows the board until the person leaves. Meanwhile questions that
// nobody else could answer wait for them.
func (p *program) watchTop(ctx context.Context, cfg *config.Config) (resume string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	o := view.TopOptions{
		Board: func() (view.Board, error) { return readBoard(cfg) }, Changed: changed, Home: p.env.HomeDir,
		Events: func(s timeline.Summary, from int64) ([]timeline.Event, int64, error) { return readEvents(cfg, s, from) },
		Gone: func(q live.Question) error {
			_, err := live.Find(cfg.Home, q.ID)
			return err
		},
	}
	if supervise.InTree() {
		o.Why = "only looking: an agent may have started this"
	} else {
		o.Answer = func(q live.Question, r live.Reply) error { return live.Answer(cfg.Home, q.ID, r) }
		o.Order = func(ctx context.Context, s timeline.Summary, order live.Order) error {
			return live.Send(ctx, cfg.Home, s.Process, order)
		}
		watching.Go(func() {
			live.Watch(ctx, cfg.Home, boardPoll, func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
		})
	}
	return view.Top(ctx, p.console, o)
}

// timelinesOf is where a session's timeline is: those of agents are kept, those
// of chats end with their process.
func timelinesOf(cfg *config.Config, s timeline.Summary) *timeline.Store {
	if s.Profile == bridge.ProfileChat {
		return timeline.Open(live.Timelines(cfg.Home, s.Process))
	}
	return timeline.Open(timeline.Dir(cfg.Home))
}

// tailEvents is how many events of a long session are read first.
const tailEvents = 1000

// readEvents reads a timeline from an offset on; from -1, its end.
func readEvents(cfg *config.Config, s timeline.Summary, from int64) (events []timeline.Event, next int64, err error) {
	var lines []json.RawMessage
	if store := timelinesOf(cfg, s); from < 0 {
		lines, _, next, err = store.Before(s.ID, math.MaxInt64, tailEvents)
	} else {
		lines, next, err = store.Read(s.ID, from, tailEvents)
	}
	for _, line := range lines {
		var e timeline.Event
		if json.Unmarshal(line, &e) == nil { // what is damaged is left out
			events = append(events, e)
		}
	}
	return events, next, err
}

const (
	pastSessions = 20 // that have ended are shown
	pastRuns     = 5
)

// readBoard reads what goes on in the home.
func readBoard(cfg *config.Config) (view.Board, error) {
	b := view.Board{At: time.Now(), Approvals: []live.Question{}, Sessions: []timeline.Summary{}, Runs: []view.TopRun{}}
	processes, err := live.Processes(cfg.Home)
	if err != nil {
		return b, err
	}
	if b.Approvals, err = live.Questions(cfg.Home); err != nil {
		return b, err
	}
	all, err := timeline.Open(timeline.Dir(cfg.Home)).List()
	if err != nil {
		return b, err
	}
	alive := map[string]bool{}
	for _, p := range processes {
		alive[p.ID] = true
		chats, err := timeline.Open(live.Timelines(cfg.Home, p.ID)).List()
		if err != nil {
			return b, err
		}
		all = append(all, chats...)
	}
	b.Sessions = latest(all, alive)
	if b.Runs, err = readRuns(cfg.Home); err != nil {
		return b, err
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	records, err := app.Usage(cfg).Read(today)
	for _, r := range records {
		b.Today = b.Today.Add(r)
	}
	return b, err
}

// latest puts the sessions that live first, those that were begun last on top,
// and then the last that have ended.
func latest(all []timeline.Summary, alive map[string]bool) []timeline.Summary {
	open, past := []timeline.Summary{}, []timeline.Summary{}
	for _, s := range all {
		switch {
		case s.State.Live() && alive[s.Process]:
			open = append(open, s)
			continue
		case s.State == timeline.Running || s.State == timeline.Waiting:
			s.State = timeline.Interrupted
		case s.State == timeline.Idle:
			s.State = timeline.Ended
		}
		past = append(past, s)
	}
	slices.SortStableFunc(open, func(a, b timeline.Summary) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.ID, b.ID)) })
	slices.SortStableFunc(past, func(a, b timeline.Summary) int { return cmp.Or(b.Changed.Compare(a.Changed), cmp.Compare(a.ID, b.ID)) })
	return append(open, past[:min(len(past), pastSessions)]...)
}

// readRuns lists the orchestrations under way and the last that ended, with how
// far each has come.
func readRuns(home string) ([]view.TopRun, error) {
	runs, err := orchestrate.Runs(home)
	out := []view.TopRun{}
	for i, r := range runs {
		if r.State != orchestrate.StateRunning && i >= pastRuns {
			continue
		}
		one := view.TopRun{ID: r.ID, Task: r.Task, Dir: r.Dir, State: r.State, Started: r.Created}
		one.Done, one.Failed, one.Total = progressOf(filepath.Join(orchestrate.RunsDir(home), r.ID, "events.jsonl"))
		out = append(out, one)
	}
	return out, err
}

// progressOf counts the tasks of a run, from its journal.
func progressOf(journal string) (done, failed, total int) {
	data, err := os.ReadFile(journal)
	if err != nil {
		return 0, 0, 0 // it has not begun
	}
	ended := map[string]orchestrate.State{}
	for line := range bytes.Lines(data) {
		var e orchestrate.Event
		if json.Unmarshal(line, &e) != nil {
			continue // the last one may still be written
		}
		switch {
		case e.Plan != nil:
			total = len(e.Plan.Tasks)
		case e.Type == orchestrate.TaskStarted:
			delete(ended, e.Task)
		case e.Type == orchestrate.TaskCompleted && e.Result != nil:
			ended[e.Task] = e.Result.State
		}
	}
	for _, state := range ended {
		switch state {
		case orchestrate.Done:
			done++
		case orchestrate.Failed:
			failed++
		default:
		}
	}
	return done, failed, total
}
