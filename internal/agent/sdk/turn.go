package sdk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// waitingMost is how many bytes of text may wait for a turn's reader.
const waitingMost = 1 << 20

// errUnread ends a turn whose reader does not keep up.
var errUnread = &bridge.Error{Code: bridge.CodeTimeout, Message: "the answer was ended because it is not read: 1 MiB of it was waiting",
	Remedy: "read the answer as it comes"}

// turn is the queue between the SDK's event goroutine and Send's reader.
type turn struct {
	*common.Queue[bridge.Event]
	unread chan struct{} // closed when the reader does not keep up

	mu      sync.Mutex
	stopped bool        // the runtime says that it was aborted
	late    *time.Timer // ends a turn whose last event was lost
}

func newTurn() *turn {
	return &turn{Queue: common.NewQueue(waitingMost, textSize, join), unread: make(chan struct{})}
}

func (t *turn) push(ev bridge.Event) {
	if !t.Push(ev) && t.Fail(errUnread) {
		close(t.unread)
	}
}

// join makes one piece of text of two.
func join(last, next bridge.Event, most int) (bridge.Event, bool) {
	a, ok := last.(bridge.TextDelta)
	b, ok2 := next.(bridge.TextDelta)
	if !ok || !ok2 || a.Message != b.Message || a.AgentID != b.AgentID || len(a.Text)+len(b.Text) > most {
		return nil, false
	}
	a.Text += b.Text
	return a, true
}

// textSize is the length of the text in those events that may come in any
// number.
func textSize(ev bridge.Event) int {
	switch e := ev.(type) {
	case bridge.TextDelta:
		return len(e.Text)
	case bridge.ReasoningDelta:
		return len(e.Text)
	case bridge.ToolProgress:
		return len(e.Text)
	case bridge.ToolFinished:
		return len(e.Result)
	case bridge.MessageDone:
		return len(e.Text) + len(e.Reasoning)
	default:
		return 0
	}
}

// end closes the queue; the first call counts.
func (t *turn) end(aborted bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.Ended() {
		t.stopped = aborted
		t.End(err)
	}
}

// aborted reports whether the turn ended by an abort.
func (t *turn) aborted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopped
}

// endWithin ends the turn after d, and then calls f if there is one, unless it
// has ended by then. settle calls that off.
func (t *turn) endWithin(d time.Duration, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Ended() {
		return
	}
	t.late = time.AfterFunc(d, func() {
		if f != nil {
			f()
		}
		t.end(f != nil, nil)
	})
}

func (t *turn) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late != nil {
		t.late.Stop()
	}
}

// request makes a prompt of the session a request of the runtime.
func (s *session) request(p bridge.Prompt) (*rpc.SendRequest, error) {
	if len(s.Spec.Headers) > 0 {
		all := maps.Clone(s.Spec.Headers)
		for name, value := range p.Headers {
			maps.DeleteFunc(all, func(other, _ string) bool { return strings.EqualFold(name, other) })
			all[name] = value
		}
		p.Headers = all
	}
	return sendRequest(p)
}

// sendRequest makes a prompt a request of the runtime, which is answered when the
// turn is over.
func sendRequest(p bridge.Prompt) (*rpc.SendRequest, error) {
	wait := true
	req := &rpc.SendRequest{Prompt: p.Text, RequestHeaders: p.Headers, Wait: &wait}
	for _, a := range p.Attachments {
		att, err := attachment(a)
		if err != nil {
			return nil, err
		}
		req.Attachments = append(req.Attachments, att)
	}
	if f := p.ResponseFormat; f != nil {
		var schema map[string]any
		if err := json.Unmarshal(f.Schema, &schema); err != nil {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the response format's schema is not a JSON object", Cause: err}
		}
		req.ResponseFormat = &rpc.ResponseFormat{Type: rpc.ResponseFormatTypeJSONSchema,
			JSONSchema: rpc.JSONSchemaResponseFormat{Name: f.Name, Schema: schema, Strict: &f.Strict}}
		if f.Description != "" {
			req.ResponseFormat.JSONSchema.Description = &f.Description
		}
	}
	return req, nil
}

func attachment(a bridge.Attachment) (rpc.Attachment, error) {
	name := a.Name
	switch {
	case len(a.Data) > 0 && a.Path == "":
		data := base64.StdEncoding.EncodeToString(a.Data)
		return &rpc.AttachmentBlob{Data: &data, MIMEType: a.MIME, DisplayName: opt(name)}, nil
	case a.Path == "":
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "an attachment needs a path or data"}
	}
	if name == "" {
		name = filepath.Base(a.Path)
	}
	if a.Directory {
		return &rpc.AttachmentDirectory{Path: a.Path, DisplayName: name}, nil
	}
	return &rpc.AttachmentFile{Path: a.Path, DisplayName: name}, nil
}

const (
	// abortWithin is how long the runtime may be silent after an abort before
	// it is taken for hung and killed; abortAtMost if that would take others'
	// turns with it, for on a starved machine the merely busy look the same.
	abortWithin = 2 * time.Second
	abortAtMost = 20 * time.Second
	// abortAgain is the time between the first two requests to abort.
	abortAgain = 50 * time.Millisecond
	// confirmWithin bounds the wait for the runtime's word that an aborted turn
	// has left its queue for good.
	confirmWithin = 500 * time.Millisecond
	// idleWithin bounds the wait for the last event after the runtime has said
	// that the turn is over.
	idleWithin = 2 * time.Second
)

// setMode switches to the mode of a prompt. The mode is the session's, and is
// stored with it: one that is sent along with a message changes what the system
// text says, but neither marks the message as one to plan for nor has the agent
// go on by itself.
func (s *session) setMode(ctx context.Context, mode string) error {
	s.mu.Lock()
	same := mode == "" || mode == s.mode
	s.mu.Unlock()
	if same {
		return nil
	}
	if !slices.Contains([]string{bridge.ModeInteractive, bridge.ModePlan, bridge.ModeAutopilot}, mode) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "there is no mode " + mode, Remedy: "there are interactive, plan and autopilot"}
	}
	if _, err := s.sdk.RPC.Mode.Set(ctx, &rpc.ModeSetRequest{Mode: rpc.SessionMode(mode)}); err != nil {
		return s.host.explain(err, "switch to mode "+mode)
	}
	s.mu.Lock()
	s.mode = mode // its event may come later
	s.mu.Unlock()
	return nil
}

// onEvent runs on the SDK's event goroutine, one event at a time.
func (s *session) onEvent(e copilot.SessionEvent) {
	if !s.ending.Load() {
		s.proc.heard.Store(time.Now().UnixNano())
	}
	s.trackCall(e)
	s.agents.track(e)
	s.mu.Lock()
	t := s.turn
	s.note(e)
	s.noteModel(e)
	if d, ok := e.Data.(*rpc.SessionModeChangedData); ok {
		s.mode = string(d.NewMode)
	}
	s.mu.Unlock()
	if d, ok := e.Data.(*rpc.SessionResumeData); ok {
		select {
		case s.resumed <- d.AlreadyInUse != nil && *d.AlreadyInUse:
		default:
		}
	}
	if t == nil {
		return // between turns: what matters of it is in the history
	}
	if s.Spec.Raw {
		raw(e, t.push)
	}
	switch d := e.Data.(type) {
	case *rpc.SessionErrorData:
		if e.AgentID == nil {
			t.Fail(s.tr.failure(s.host.sessionError(d, s.ModelInUse(), s.tr.known())))
			return
		}
	case *rpc.ModelCallFailureData:
		if d.StatusCode != nil && *d.StatusCode == http.StatusUnauthorized {
			s.proc.loginRefused.Store(true) // see Logins
		}
	case *rpc.SessionIdleData:
		if e.AgentID == nil {
			t.end(d.Aborted != nil && *d.Aborted, nil)
			return
		}
	}
	s.tr.translate(e, t.push)
}

func (s *session) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return s.Run(ctx, p, s.send)
}

func (s *session) send(ctx context.Context, st *common.Turn, p bridge.Prompt) error {
	exit, err := s.enter()
	if err != nil {
		return err
	}
	defer exit()
	req, err := s.request(p)
	if err != nil {
		return err
	}
	if t := s.host.opts.Telemetry; t != nil && t.Parent != nil {
		if parent := t.Parent(ctx); parent != "" {
			req.Traceparent = &parent
		}
	}
	if err := s.refreshSandbox(ctx); err != nil {
		return err
	}
	if err := s.setMode(ctx, p.Mode); err != nil {
		return err
	}
	t := newTurn()
	s.ShowWith(st, t.push)
	s.begin(t)
	sendC, cancelSend := context.WithCancel(context.WithoutCancel(ctx))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// The answer comes when the turn is over, and at once if the runtime
		// dies: this is how a crash is noticed.
		_, err := s.sdk.RPC.Send(sendC, req)
		s.sent(t, err)
	}()
	var watching sync.WaitGroup
	watching.Go(func() { s.abortUnread(st.Ctx, t) })
	watching.Go(func() { s.goOnWithoutGitHub(st.Ctx, t) })
	aborted, done := false, false
	defer func() {
		st.Cancel()
		watching.Wait()
		s.finish(done)
		if aborted {
			s.confirm(sent)
		}
		cancelSend()
		<-sent
		t.settle()
		s.endGrants(done)
	}()

	for {
		events, ended, failure := t.Take()
		for _, ev := range events {
			switch e := ev.(type) {
			case bridge.UsageReported:
				st.Usage = st.Usage.Add(e.Usage)
			case bridge.PlanChanged:
				e.Entries = s.steps(ctx)
				ev = e
			default:
			}
			if err := st.Emit(ev); err != nil {
				aborted = true
				s.abortTurn(t)
				return err
			}
		}
		if ended {
			aborted = t.aborted()
			switch {
			case failure != nil:
				return failure
			case aborted:
				return st.End(bridge.EndAborted)
			}
			done = true
			s.host.worked(s.proc)
			return st.End(bridge.EndDone)
		}
		if errors.Is(failure, errUnread) {
			aborted = true
			s.abortTurn(t)
			return failure
		}
		select {
		case <-t.Wake():
		case <-st.Ctx.Done():
			aborted = true
			s.abortTurn(t)
			return context.Cause(st.Ctx)
		}
	}
}

// enter keeps the session in its runtime until exit is called. It fails if
// the session has left it.
func (s *session) enter() (exit func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended {
		return nil, &bridge.Error{Code: bridge.CodeCrashed, Message: "the runtime of the session has been replaced", Remedy: "resume the session"}
	}
	s.users++
	s.uses++
	return func() {
		s.mu.Lock()
		s.users--
		s.mu.Unlock()
		s.proc.nudge()
		s.host.recycleGrown(s.proc)
	}, nil
}

// abortUnread aborts a turn as soon as its reader does not keep up: the reader
// itself waits for its own client. It returns when ctx ends.
func (s *session) abortUnread(ctx context.Context, t *turn) {
	select {
	case <-t.unread:
		s.host.opts.Logger.Warn("turn.unread: the reader of an answer does not keep up; the turn is aborted", "session", s.ID())
		s.ending.Store(true)
		if err := s.sdk.Abort(ctx); err != nil && ctx.Err() == nil {
			s.host.opts.Logger.Warn("turn.unread: the turn could not be aborted", "session", s.ID(), "error", err)
		}
	case <-ctx.Done():
	}
}

// confirm waits until the runtime has answered the send request of an aborted
// turn: only then is it sure that the message will not be taken up after all.
func (s *session) confirm(sent <-chan struct{}) {
	late := time.NewTimer(confirmWithin)
	defer late.Stop()
	select {
	case <-sent:
	case <-late.C:
		s.markUnconfirmed()
	}
}

func (s *session) begin(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = t
	s.proc.turns.Add(1)
	s.ending.Store(false)
	s.tr.reset()
}

// finish is called when a turn is over; done says that it ended well.
func (s *session) finish(done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = nil
	s.resetUnsafe = s.resetUnsafe || !done
	s.proc.turns.Add(-1)
}

// sent handles the end of the send request.
func (s *session) sent(t *turn, err error) {
	switch {
	case err == nil:
		// The idle event normally came just before; if it got lost the turn
		// must not hang for it. There is none if the turn was aborted before
		// it began; but one that is late would end the next turn.
		if s.ending.Load() {
			t.endWithin(confirmWithin/2, s.markUnconfirmed)
			return
		}
		t.endWithin(idleWithin, nil)
	case errors.Is(err, context.Canceled):
		t.end(true, nil)
	default:
		e := s.host.explain(err, "finish the turn")
		if bridge.CodeOf(e) == bridge.CodeCrashed {
			s.host.crashed(s.proc)
		}
		t.end(false, e)
	}
}

// errSilent says that all sessions of a runtime are silent.
var errSilent = errors.New("it has gone silent")

// abortTurn ends the turn in the runtime and waits until it is over there
// too; a runtime that does not react is killed. While it serves others a chat
// is given up instead: unlike an agent it has no tool at work.
func (s *session) abortTurn(t *turn) {
	ctx, cancel := context.WithTimeout(context.Background(), abortAtMost)
	defer cancel()
	err := s.awaitEnd(ctx, t)
	if err == nil {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) && s.host.profile == bridge.ProfileChat && s.proc.turns.Load() > 1 {
		s.host.opts.Logger.Warn("turn.abandoned: the runtime did not end an aborted chat", "session", s.ID())
		s.markUnconfirmed()
		return
	}
	if bridge.CodeOf(s.host.explain(err, "abort the turn")) != bridge.CodeCrashed {
		s.host.opts.Logger.Warn("turn.not_ended: the runtime is restarted", "session", s.ID(), "error", err)
	}
	s.host.crashed(s.proc)
}

// awaitEnd asks the runtime to abort, again and again until the turn has
// ended: a request that comes before the message was taken up has no effect,
// and now and then one is not answered.
func (s *session) awaitEnd(ctx context.Context, t *turn) error {
	s.ending.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan error)
	ask := func() {
		err := s.sdk.Abort(ctx)
		select {
		case answers <- err:
		case <-ctx.Done():
		}
	}
	open, began, pause := 0, time.Now(), abortAgain
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		if _, ended, _ := t.Take(); ended {
			break
		}
		select {
		case <-t.Wake():
		case err := <-answers:
			if open--; err != nil {
				return err
			}
		case now := <-again.C:
			last := max(s.proc.heard.Load(), began.UnixNano())
			if now.UnixNano()-last > int64(abortWithin) && s.proc.turns.Load() == 1 {
				return errSilent
			}
			open++
			wg.Go(ask)
			again.Reset(pause)
			pause = min(2*pause, abortWithin/2)
		case <-ctx.Done():
			if s.proc.heard.Load() < began.UnixNano() {
				return errSilent
			}
			return ctx.Err()
		}
	}
	// A request that is still under way would hit the next turn.
	late := time.After(confirmWithin)
	for ; open > 0; open-- {
		select {
		case <-answers:
		case <-late:
			s.markUnconfirmed()
			return nil
		}
	}
	return nil
}

// markUnconfirmed keeps the session from being given to another caller.
func (s *session) markUnconfirmed() {
	s.mu.Lock()
	s.abortUnconfirmed = true
	s.mu.Unlock()
}

// note takes down what a reset has to know of an event: where the conversation
// begins, and how many events the runtime stores from there on. If it says
// that it has removed just as many, nothing is left, and it need not be asked
// again, which would be one request in three of a short chat.
// s.mu is held.
func (s *session) note(e copilot.SessionEvent) {
	if _, ok := e.Data.(*rpc.UserMessageData); ok && s.firstMessageID == "" && e.AgentID == nil {
		s.firstMessageID = e.ID
	}
	switch {
	case e.Ephemeral != nil && *e.Ephemeral:
	case s.firstMessageID != "":
		s.storedEvents++
	case !blank[e.Type()]:
		s.resetUnsafe = true
	}
}

// blank are the events that an empty chat may hold.
var blank = map[copilot.SessionEventType]bool{
	copilot.SessionEventTypeSessionStart: true, copilot.SessionEventTypeSessionModelChange: true, copilot.SessionEventTypeAbort: true,
}
