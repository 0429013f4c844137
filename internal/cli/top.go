package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

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
			b, err := newBoards(c.cfg).read()
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
	source := newBoards(cfg)
	o := view.TopOptions{
		Board: source.read, Events: source.events, Changed: changed, Home: p.env.HomeDir,
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

// tailEvents is how many events of a long session are read first.
const tailEvents = 1000

// events reads a timeline from an offset on; from -1, its end.
func (r boards) events(s timeline.Summary, from int64) (events []timeline.Event, next int64, err error) {
	var lines []json.RawMessage
	if from < 0 {
		lines, _, next, err = r.timelines.Before(s.ID, math.MaxInt64, tailEvents)
	} else {
		lines, next, err = r.timelines.Read(s.ID, from, tailEvents)
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
	mostRuns     = 5
)

// boards reads what goes on in a home.
type boards struct {
	cfg       *config.Config
	timelines *timeline.Library
	runs      *orchestrate.Looker
}

func newBoards(cfg *config.Config) boards {
	return boards{cfg, timeline.OpenLibrary(cfg.Home), orchestrate.NewLooker(cfg.Home)}
}

func (r boards) read() (view.Board, error) {
	b := view.Board{At: time.Now(), Runs: []view.TopRun{}}
	var err error
	if b.Approvals, err = live.Questions(r.cfg.Home); err != nil {
		return b, err
	}
	all, err := r.timelines.List()
	if err != nil {
		return b, err
	}
	b.Sessions = latest(all)
	runs, err := r.runs.List(mostRuns)
	if err != nil {
		return b, err
	}
	for _, run := range runs {
		b.Runs = append(b.Runs, topRun(run))
	}
	records, err := app.Usage(r.cfg).Read(b.At)
	for _, used := range records {
		b.Today = b.Today.Add(used)
	}
	return b, err
}

// latest puts the sessions that are open first, those that were begun last on
// top, and then the last that have ended.
func latest(all []timeline.Summary) []timeline.Summary {
	open, past := []timeline.Summary{}, []timeline.Summary{}
	for _, s := range all {
		if s.State.Live() {
			open = append(open, s)
		} else if len(past) < pastSessions {
			past = append(past, s)
		}
	}
	slices.SortStableFunc(open, func(a, b timeline.Summary) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.ID, b.ID)) })
	return append(open, past...)
}

// topRun is an orchestration with how far it has come.
func topRun(r orchestrate.Looked) view.TopRun {
	one := view.TopRun{ID: r.ID, Task: r.Name(), Dir: r.Dir, State: r.State, Started: r.Created, Total: len(r.Tasks)}
	for _, t := range r.Tasks {
		switch t.State {
		case orchestrate.Done:
			one.Done++
		case orchestrate.Failed:
			one.Failed++
		default:
		}
	}
	return one
}
