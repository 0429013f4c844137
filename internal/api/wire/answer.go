package wire

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Answer gathers the events of a turn into what every API tells of it.
type Answer struct {
	Chat  bridge.Chat
	Stop  Stopper
	Calls []bridge.ToolCall // of the last message
	Usage bridge.Usage      // as reported so far; once the turn has ended, all of it
	End   bridge.EndReason  // "" until then
	// FinishReason is "length", "content_filter" or "".
	FinishReason string

	shown   int             // bytes of the current message's text
	thought bool            // some of its reasoning was shown
	text    strings.Builder // of a message that is not finished, if the answer is sent whole
	mind    strings.Builder // its reasoning
}

// Delta is what an event adds to an answer: reasoning, then text.
type Delta struct {
	Reasoning  string
	Of         string // pieces of the same reasoning have the same name
	Text       string
	MessageEnd bool
}

// OfActivity is the name of reasoning that tells what an agent does.
const OfActivity = "activity"

// finishes are the FinishReasons, by the providers' words.
var finishes = map[string]string{"length": "length", "max_tokens": "length", "content_filter": "content_filter", "refusal": "content_filter"}

// Next takes an event. Text of sub-agents is not part of the answer.
func (a *Answer) Next(ev bridge.Event) (d Delta) {
	switch e := ev.(type) {
	case bridge.TextDelta:
		switch {
		case e.AgentID != "":
		case a.Chat.Whole: // it may be of a message that broke and is begun anew
			a.text.WriteString(e.Text)
		default:
			d.Text = a.show(e.Text)
		}
	case bridge.ReasoningDelta:
		switch {
		case e.AgentID != "":
		case a.Chat.Whole:
			a.mind.WriteString(e.Text)
		default:
			a.thought = true
			d.Reasoning, d.Of = e.Text, "model "+e.ID
		}
	case bridge.MessageDone:
		if e.AgentID == "" {
			a.Calls = e.Calls
			d = a.finishMessage(e)
		}
	case bridge.UsageReported:
		a.Usage, a.FinishReason = a.Usage.Add(e.Usage), finishes[e.Finish]
	case bridge.TurnEnded:
		a.End = e.Reason
		if e.Usage != (bridge.Usage{}) {
			a.Usage = e.Usage
		}
		d = a.finishMessage(bridge.MessageDone{Text: a.text.String()}) // one that nothing has finished
	default:
		d.Reasoning, d.Of = Activity(ev), OfActivity
	}
	return d
}

func (a *Answer) show(text string) string {
	a.shown += len(text)
	return a.Stop.Next(text)
}

// finishMessage returns the rest of a message: all of it if the provider does not
// stream, or if the answer is sent whole.
func (a *Answer) finishMessage(e bridge.MessageDone) Delta {
	d := Delta{Of: "model " + e.Message, MessageEnd: true}
	if !a.thought && a.shown == 0 {
		d.Reasoning = firstOf(e.Reasoning, a.mind.String())
	}
	if n := a.shown; n < len(e.Text) && utf8.RuneStart(e.Text[n]) {
		d.Text = a.show(e.Text[n:])
	}
	d.Text += a.Stop.Rest()
	a.shown, a.thought = 0, false
	a.text.Reset()
	a.mind.Reset()
	return d
}

// Complete reports whether the turn ended without a failure.
func (a *Answer) Complete() bool { return a.End == bridge.EndDone || a.End == bridge.EndTools }

// enough reports whether the rest of the turn can be dropped. An answer that is
// sent whole waits for its usage after a stop sequence, if no tools run.
func (a *Answer) enough() bool {
	if a.Complete() || a.Stop.Hit == "" {
		return a.Complete()
	}
	return !a.Chat.Whole || len(a.Calls) > 0 || a.Chat.Profile == bridge.ProfileAgent
}

// unfinished is the error for a turn that ended without an answer.
func (a *Answer) unfinished() error {
	if a.End == bridge.EndAborted {
		return &bridge.Error{Code: bridge.CodeCanceled, Message: "the turn was aborted"}
	}
	return &bridge.Error{Code: bridge.CodeInternal, Message: "the turn ended without an answer"}
}

// Service serves the APIs for chats. Its methods are called concurrently.
type Service interface {
	// Model resolves a name that a client uses. CodeNotFound lists the models.
	Model(ctx context.Context, name string) (bridge.ChatModel, error)
	// Stream runs a chat. The channel is closed after the last piece. leave
	// must be called; it aborts an incomplete turn. The end of ctx does not.
	Stream(ctx context.Context, c bridge.Chat) (pieces <-chan bridge.Piece, leave func())
}

// ModelHeader names the model that answers instead of an unknown one.
const ModelHeader = "X-Copilot-Bridge-Model"

// Resolve finds the model that a client names. A header names another one.
func Resolve(w http.ResponseWriter, r *http.Request, svc Service, name string) (bridge.ChatModel, error) {
	m, err := svc.Model(r.Context(), name)
	facts := FactsOf(r.Context())
	facts.Requested, facts.Model = name, m.Name
	if err != nil {
		if bridge.CodeOf(err) != bridge.CodeNotFound {
			err = EndedBy(r.Context(), err)
		}
		return m, err
	}
	if m.Instead != "" {
		w.Header().Set(ModelHeader, m.Name)
	}
	return m, nil
}

// Encoder writes an answer in the form of one API.
type Encoder interface {
	Add(Delta)
	Finish()    // the answer is complete
	KeepAlive() // nothing has been sent for a while
}

// Run answers a request. out, if any, is the encoder's stream and is flushed when
// no event is ready. The caller reports the error. Before the first word of the
// model nothing is sent for twice keepAlive: the runtime repeats a failing call for
// some 15 s, and until then an error still has its own status.
func (a *Answer) Run(ctx context.Context, svc Service, enc Encoder, out *Stream, keepAlive time.Duration) error {
	pieces, leave := svc.Stream(ctx, a.Chat)
	defer leave()
	facts := FactsOf(ctx)
	silence := time.NewTimer(2 * keepAlive)
	defer silence.Stop()
	for {
		select {
		case p, open := <-pieces:
			switch {
			case !open:
				return EndedBy(ctx, a.unfinished())
			case p.Err != nil:
				return EndedBy(ctx, p.Err)
			case p.Event == nil:
				continue
			}
			facts.See(p.Event)
			if d := a.Next(p.Event); d != (Delta{}) {
				enc.Add(d)
			}
			if a.enough() {
				enc.Finish()
				return out.Flush()
			}
			if len(pieces) > 0 && !out.full() {
				continue // to be sent together
			}
		case <-silence.C:
			enc.KeepAlive()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if out.empty() {
			continue // there was nothing to show, and the silence goes on
		}
		if err := out.Flush(); err != nil {
			return err
		}
		silence.Reset(keepAlive)
	}
}

// maxActivity bounds a line about a tool, in bytes.
const maxActivity = 200

// Activity describes what an agent does in a line, or "", for the place where an
// API shows reasoning: the agent's tools do not run in the client.
func Activity(ev bridge.Event) string {
	switch e := ev.(type) {
	case bridge.ToolStarted:
		return "▸ " + oneLine(e.Call.Name+about(e.Call.Args)) + "\n"
	case bridge.ToolFinished:
		if e.OK {
			return ""
		}
		return "  ✗ " + oneLine(firstOf(e.Error, e.Code, "failed")) + "\n"
	case bridge.PermissionAsked:
		r := e.Request
		return "  ? waiting for approval: " + oneLine(firstOf(r.Command, strings.Join(r.Paths, ", "), strings.Join(r.URLs, ", "), r.Intention, r.Tool, string(r.Kind))) + "\n"
	case bridge.PermissionDecided:
		if e.Decision.Verdict == bridge.Allow {
			return ""
		}
		return "  ✗ " + oneLine("not allowed: "+firstOf(e.Decision.Reason, "no reason given")) + "\n"
	default:
		return ""
	}
}

// about picks the argument that tells most about a call.
func about(args any) string {
	fields, ok := args.(map[string]any)
	if !ok {
		return ""
	}
	for _, name := range []string{"command", "path", "pattern", "url", "query", "description", "prompt"} {
		if s, ok := fields[name].(string); ok && s != "" {
			return ": " + s
		}
	}
	return ""
}

// oneLine is the first line of s, shortened.
func oneLine(s string) string {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = s[:i] + " …"
	}
	return text.Clip(s, maxActivity)
}

// firstOf is the first that says something.
func firstOf(list ...string) string {
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			return s
		}
	}
	return ""
}

// Stopper cuts a text that arrives in pieces before the first complete stop
// sequence. It holds back text that may begin one.
type Stopper struct {
	Stops []string
	Hit   string // the sequence that has ended the text; "" while none has
	held  string
}

// Next returns what of the text so far may be shown now.
func (s *Stopper) Next(piece string) string {
	switch {
	case len(s.Stops) == 0:
		return piece
	case s.Hit != "":
		return ""
	}
	text := s.held + piece
	s.held = ""
	start, end := -1, len(text)+1
	for _, stop := range s.Stops {
		i := strings.Index(text, stop)
		if e := i + len(stop); i >= 0 && (e < end || e == end && i < start) {
			start, end = i, e
		}
	}
	if start >= 0 {
		s.Hit = text[start:end]
		return text[:start]
	}
	keep := len(text)
	for _, stop := range s.Stops {
		for n := min(len(stop)-1, len(text)); n > len(text)-keep; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				keep = len(text) - n
				break
			}
		}
	}
	s.held = text[keep:]
	return text[:keep]
}

// Rest returns the text that was held back, at the end of a message.
func (s *Stopper) Rest() string {
	held := s.held
	s.held = ""
	return held
}
