package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Question is an open question to a person, as others see it. Its texts are
// without secrets, and every character of Lead and Body is visible.
type Question struct {
	ID      string `json:"id"`
	Process string `json:"process"`
	Session string `json:"session,omitempty"`
	// Request is the id of the session's event that tells of the question.
	Request string `json:"request,omitempty"`
	Door    string `json:"door,omitempty"`
	Client  string `json:"client,omitempty"`
	Dir     string `json:"dir,omitempty"`
	// Agents are the names of the sub-agents that ask, the outermost first.
	Agents []string `json:"agents,omitempty"`

	Who  string `json:"who,omitempty"` // wants it; "" for Copilot
	Lead string `json:"lead"`          // who wants what, in one line
	Body string `json:"body,omitempty"`
	Says string `json:"says,omitempty"` // the model's words, which may be untrue

	Kind    string   `json:"kind,omitempty"` // as in bridge.PermissionKind, or "ask" and "form" of an agent
	Tool    string   `json:"tool,omitempty"`
	Command string   `json:"command,omitempty"`
	Diff    string   `json:"diff,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	URLs    []string `json:"urls,omitempty"`
	Rule    string   `json:"rule,omitempty"`   // that made it a question
	Reason  string   `json:"reason,omitempty"` // why it is one

	// Answers are those that Reply may have.
	Answers []string `json:"answers"`
	// Always are the rules that the answer "always" writes.
	Always []string `json:"always,omitempty"`
	// Form is set in an agent's own question.
	Form *Form `json:"form,omitempty"`

	Asked time.Time `json:"asked"`
	Until time.Time `json:"until,omitzero"` // without an answer by then it is denied
}

// Form is what an agent wants to know: a text or a choice, or the fields of a
// JSON schema.
type Form struct {
	Choices  []string         `json:"choices,omitempty"`
	Freeform bool             `json:"freeform,omitempty"` // a text of the person's own is an answer too
	Source   string           `json:"source,omitempty"`   // the MCP server that asks, if one does
	URL      string           `json:"url,omitempty"`      // to be opened in a browser
	Fields   []approval.Field `json:"fields,omitempty"`
	Schema   json.RawMessage  `json:"schema,omitempty"`
}

// Content reads a reply with answer "text" to a form with a schema. It fails
// with bridge.CodeInvalid if the reply does not fit.
func (f *Form) Content(r Reply) (map[string]any, error) {
	entered := r.Fields
	if len(f.Fields) == 1 && entered == nil {
		entered = map[string]string{f.Fields[0].Name: r.Text}
	}
	return approval.Fill(f.Schema, entered)
}

// check says what is wrong with a reply, if it is no answer to the form.
func (f *Form) check(r Reply) error {
	if r.Answer != Text {
		return nil
	}
	if f.Schema != nil {
		_, err := f.Content(r)
		return err
	}
	if f.URL == "" && (strings.TrimSpace(r.Text) == "" || !f.Freeform && len(f.Choices) > 0 && !slices.Contains(f.Choices, r.Text)) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the answer does not fit the question", Remedy: "give one of its choices, or a text if it takes one"}
	}
	return nil
}

// The answers that a Reply can have. Once, Session, Always and Deny answer a
// question of consent; Text, Decline and Cancel one of an agent.
const (
	Once    = "once"
	Session = "session"
	Always  = "always"
	Deny    = "deny"
	Text    = "text"
	Decline = "decline"
	Cancel  = "cancel"
)

// Reply is a person's answer.
type Reply struct {
	Answer string `json:"answer"`
	Reason string `json:"reason,omitempty"` // of a denial, told to the agent
	// Text answers an agent's question. Where a form has several fields, Fields
	// has the text of each by its name.
	Text   string            `json:"text,omitempty"`
	Fields map[string]string `json:"fields,omitempty"`
	// By is where the person answered: "dashboard", "terminal", …
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
}

// Said puts a reply into words, such as "allowed once".
func (r Reply) Said() string {
	switch r.Answer {
	case Once:
		return "allowed once"
	case Session:
		return "allowed for the session"
	case Always:
		return "allowed always"
	case Deny:
		return "denied"
	case Text:
		return "answered"
	case Decline:
		return "declined"
	}
	return "cancelled"
}

// ErrAnswered and ErrGone are in the chains of Answer's errors.
var (
	ErrAnswered = errors.New("the question has been answered")
	ErrGone     = errors.New("there is no such question, or it needs no answer any more")
)

const (
	questionsDir = "questions"
	replySuffix  = ".answer"
	openSuffix   = ".json"
	watchedFile  = "watched"

	// replyPoll is how often the owner of a question looks for its answer.
	replyPoll = 100 * time.Millisecond
	// replyKept is how long one who comes too late is told who was first.
	replyKept = 10 * time.Minute
	// watchFresh is the age of the mark up to which somebody watches.
	watchFresh = 15 * time.Second
	// markEvery is how often a watcher renews the mark.
	markEvery = 5 * time.Second
	// deadPoll is how often Watch looks for processes that have died.
	deadPoll = 2 * time.Second
)

// Open is a question that this process has put. Its answer is one file, which
// is made complete or not at all: whoever makes it first has answered. That
// goes for the owner too, so that both sides agree on the winner.
type Open struct {
	Question
	file    string // without a suffix
	replied chan Reply
	stop    chan struct{}
	once    sync.Once
	polling sync.WaitGroup
}

// Open shows a question until Close. ID, Process and Asked are set here.
func (l *Local) Open(q Question) (*Open, error) {
	dir := filepath.Join(l.dir, questionsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	removeOldAnswers(dir)
	q.ID, q.Process, q.Asked = rand.Text(), l.ID(), time.Now()
	data, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	o := &Open{Question: q, file: filepath.Join(dir, q.ID), replied: make(chan Reply, 1), stop: make(chan struct{})}
	if err := replace(o.file+openSuffix, data); err != nil {
		return nil, err
	}
	o.polling.Go(o.poll)
	return o, nil
}

// Replied gets the reply of somebody else, once.
func (o *Open) Replied() <-chan Reply { return o.replied }

func (o *Open) poll() {
	tick := time.NewTicker(replyPoll)
	defer tick.Stop()
	for {
		if r, ok := readReply(o.file + replySuffix); ok {
			o.replied <- r
			return
		}
		select {
		case <-tick.C:
		case <-o.stop:
			return
		}
	}
}

// Claim answers the question by its owner. If somebody was faster it returns
// that reply and false. An empty reply takes the question back.
func (o *Open) Claim(r Reply) (Reply, bool) {
	if err := o.decide(r); err == nil {
		return r, true
	}
	first, ok := readReply(o.file + replySuffix)
	return first, !ok || first.Answer == ""
}

func (o *Open) decide(r Reply) error { return decide(o.file+replySuffix, r) }

// Close removes the question. Who answers now is told that it is gone.
func (o *Open) Close() {
	o.once.Do(func() {
		_ = o.decide(Reply{}) // fails if there is an answer, which is as good
		close(o.stop)
		o.polling.Wait()
		_ = os.Remove(o.file + openSuffix)
	})
}

// decide makes the file of an answer, whole and only if there is none.
func decide(file string, r Reply) error {
	r.At = time.Now()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := file + "." + rand.Text() + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return errors.Join(os.Link(tmp, file), os.Remove(tmp))
}

// replace writes a file that is read by others. It need not survive a crash of
// the machine, so nothing is flushed.
func replace(file string, data []byte) error {
	tmp := file + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

func readReply(file string) (r Reply, ok bool) {
	data, err := durable.ReadFile(file)
	return r, err == nil && json.Unmarshal(data, &r) == nil
}

// removeOldAnswers removes answers that nobody asks for any more.
func removeOldAnswers(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if id, ok := strings.CutSuffix(name, openSuffix); ok || exists(strings.TrimSuffix(id, replySuffix)+openSuffix) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > replyKept {
			_ = os.Remove(name)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Questions returns the open questions of all processes, the oldest first.
func Questions(home string) ([]Question, error) {
	processes, err := Processes(home)
	if err != nil {
		return nil, err
	}
	out := []Question{}
	for _, p := range processes {
		dir := filepath.Join(Dir(home), p.ID, questionsDir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it has put none yet, or has ended
		}
		for _, e := range entries {
			id, ok := strings.CutSuffix(e.Name(), openSuffix)
			if !ok || exists(filepath.Join(dir, id+replySuffix)) {
				continue
			}
			if q, err := readQuestion(filepath.Join(dir, e.Name())); err == nil {
				q.ID, q.Process = id, p.ID
				out = append(out, q)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Question) int { return cmp.Or(a.Asked.Compare(b.Asked), strings.Compare(a.ID, b.ID)) })
	return out, nil
}

func readQuestion(file string) (q Question, err error) {
	data, err := durable.ReadFile(file)
	if err != nil {
		return q, err
	}
	return q, json.Unmarshal(data, &q)
}

// Find returns one open question. Its errors are those of Answer.
func Find(home, id string) (Question, error) {
	q, _, err := find(home, id)
	return q, err
}

func find(home, id string) (q Question, file string, err error) {
	if !idForm.MatchString(id) {
		return q, "", errGone()
	}
	processes, err := Processes(home)
	if err != nil {
		return q, "", err
	}
	for _, p := range processes {
		file := filepath.Join(Dir(home), p.ID, questionsDir, id)
		if r, ok := readReply(file + replySuffix); ok {
			return q, "", lost(r)
		}
		if q, err := readQuestion(file + openSuffix); err == nil {
			q.ID, q.Process = id, p.ID
			return q, file, nil
		}
	}
	return q, "", errGone()
}

// Answer answers an open question of any process. Of all who answer one
// question, its owner among them, exactly one is the first; the others get an
// AnsweredError.
func Answer(home, id string, r Reply) error {
	q, file, err := find(home, id)
	if err != nil {
		return err
	}
	if !slices.Contains(q.Answers, r.Answer) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the answer %q does not fit the question", r.Answer), Remedy: "answer " + strings.Join(q.Answers, ", ")}
	}
	if q.Form != nil {
		if err := q.Form.check(r); err != nil {
			return err
		}
	}
	err = decide(file+replySuffix, r)
	switch {
	case errors.Is(err, fs.ErrExist):
		if first, ok := readReply(file + replySuffix); ok {
			return lost(first)
		}
		return errGone()
	case errors.Is(err, fs.ErrNotExist): // the process has ended
		return errGone()
	}
	return err
}

// lost is what comes of an answer after another.
func lost(first Reply) error {
	if first.Answer == "" {
		return errGone()
	}
	return &AnsweredError{Reply: first}
}

func errGone() error { return &bridge.Error{Code: bridge.CodeNotFound, Cause: ErrGone} }

// AnsweredError says who was first. It is an ErrAnswered.
type AnsweredError struct{ Reply }

func (e *AnsweredError) Error() string {
	by := e.By
	if by == "" {
		by = "another place"
	}
	return "the question was answered already: " + e.Said() + ", by " + by
}

// Is makes it an ErrAnswered.
func (e *AnsweredError) Is(target error) bool { return target == ErrAnswered }

// Unwrap is the same as a domain error.
func (e *AnsweredError) Unwrap() error {
	return &bridge.Error{Code: bridge.CodeConflict, Message: e.Error()}
}

// Watch calls changed whenever something may have changed in the home: a
// process, a question, the summary of a session. It looks every interval until
// ctx ends. Meanwhile the home is marked as watched, so that processes wait for
// the answer to a question that nobody else can be asked.
func Watch(ctx context.Context, home string, interval time.Duration, changed func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var seen string
	var marked, cleaned time.Time
	for {
		now := time.Now()
		if now.Sub(marked) > markEvery {
			// Without the mark questions are denied at once, as without a watcher.
			_ = mark(home, now)
			marked = now
		}
		if now.Sub(cleaned) > deadPoll {
			_, _ = Processes(home) // which removes those that have died
			cleaned = now
		}
		if state := stamp(home); state != seen {
			seen = state
			changed()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// stamp changes with the files of the home that Watch is about. They are
// replaced, never written in place, so that the directories' times tell. Two
// changes may have one time, so a fresh one counts as another.
func stamp(home string) string {
	var out strings.Builder
	dirs := []string{Dir(home), filepath.Join(home, "timelines")}
	entries, _ := os.ReadDir(Dir(home))
	for _, e := range entries {
		if e.IsDir() {
			d := filepath.Join(Dir(home), e.Name())
			dirs = append(dirs, d, filepath.Join(d, questionsDir), filepath.Join(d, timelinesDir))
		}
	}
	for _, d := range dirs {
		if info, err := os.Stat(d); err == nil {
			at := info.ModTime()
			fmt.Fprintf(&out, "%s %d %t\n", d, at.UnixNano(), time.Since(at) < settled)
		}
	}
	return out.String()
}

// mark says that somebody watches. The file is no secret, and all that it can do
// is let a question wait.
func mark(home string, now time.Time) error {
	file := filepath.Join(Dir(home), watchedFile)
	err := os.Chtimes(file, now, now)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(Dir(home), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, nil, 0o600)
}

// Watched says whether somebody is there who would see a question: a page of the
// dashboard is open, or another program that calls Watch.
func Watched(home string) bool {
	info, err := os.Stat(filepath.Join(Dir(home), watchedFile))
	return err == nil && time.Since(info.ModTime()) < watchFresh
}
