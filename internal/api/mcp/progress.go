package mcp

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// beat is how often a client hears that a task is still at work; the usual
// time-out of a request is a minute. pause is the least time between reports
// that only say that there is more text.
const (
	beat  = 15 * time.Second
	pause = time.Second
	// queued is how many reports wait for a slow client; the rest are dropped.
	queued = 64
)

// progress reports on a task, in order, without holding it up.
type progress struct {
	reports chan string
	done    chan struct{}
	last    time.Time // of the last report about text
	once    sync.Once
}

// newProgress starts to report to the client of a call, if it has asked for
// that.
func newProgress(ctx context.Context) *progress {
	req := clientOf(ctx).req
	p := &progress{reports: make(chan string, queued), done: make(chan struct{})}
	token := req.Params.GetProgressToken()
	if token == nil {
		close(p.done)
		return p
	}
	go func() {
		defer close(p.done)
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		count, said := 0.0, "working"
		for {
			select {
			case text, ok := <-p.reports:
				if !ok {
					return
				}
				said = text
				ticker.Reset(beat)
			case <-ticker.C:
			}
			count++
			// The call itself notices that its client has disconnected.
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: count, Message: said})
		}
	}()
	return p
}

// stop ends the reports, and returns when the last was sent.
func (p *progress) stop() {
	p.once.Do(func() { close(p.reports) })
	<-p.done
}

// say is for one goroutine, and not after stop.
func (p *progress) say(text string) {
	select {
	case p.reports <- text:
	default:
	}
}

// event says what a person would want to see.
func (p *progress) event(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.SessionOpened:
		p.say("session " + e.Session)
	case bridge.ToolStarted:
		p.say("tool " + e.Call.Name + about(e.Call.Args))
	case bridge.ToolFinished:
		if !e.OK {
			p.say("tool " + e.Name + " failed: " + clip(approval.Visible(e.Error), 200))
		}
	case bridge.PermissionAsked:
		p.say("permission asked: " + string(e.Request.Kind))
	case bridge.ModelFailed:
		p.say("the model failed, trying again: " + clip(approval.Visible(e.Error.Error()), 200))
	case bridge.Notice:
		if e.Level == "note" {
			p.say(clip(approval.Visible(e.Text), 300))
		}
	case bridge.TextDelta:
		if time.Since(p.last) >= pause {
			p.last = time.Now()
			p.say("writing its answer")
		}
	default:
	}
}

// about is the argument of a tool that says most.
func about(args any) string {
	m, _ := args.(map[string]any)
	for _, key := range []string{"path", "command", "pattern", "query", "url", "description"} {
		if s, ok := m[key].(string); ok && s != "" {
			return ": " + clip(approval.Visible(s), 120)
		}
	}
	return ""
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
