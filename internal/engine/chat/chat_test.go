package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// scripted is a service on the agent without a program behind it.
func scripted(t *testing.T, opts Options, limits engine.Limits) (*Service, *agenttest.Scripted) {
	t.Helper()
	a := agenttest.NewScripted()
	if limits.QueueLimit == 0 {
		limits.QueueLimit = 100
	}
	e := engine.New(engine.Options{Agent: a, Limits: limits})
	s := New(e, opts)
	t.Cleanup(func() {
		if err := errors.Join(s.Close(context.Background()), e.Close(context.Background())); err != nil {
			t.Errorf("close: %v", err)
		}
		if left, err := a.List(context.Background()); err != nil || len(left) != 0 {
			t.Errorf("sessions are left: %v, %v", left, err)
		}
	})
	return s, a
}

// heard returns the prompts of all sessions, those of one together.
func heard(a *agenttest.Scripted) []string {
	var out []string
	for _, prompts := range a.Sent() {
		out = append(out, strings.Join(prompts, " | "))
	}
	slices.Sort(out)
	return out
}

func quiet(t *testing.T, s *Service) {
	t.Helper()
	for range 1000 {
		if s.Stats().Running == 0 {
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Fatalf("not quiet: %+v", s.Stats())
}

func TestAffinity(t *testing.T) {
	first := []bridge.Message{user("hello\nrehearsal: text hi there")}
	second := func(reply bridge.Message, more ...bridge.Message) []bridge.Message {
		return append(append(slices.Clone(first), reply), more...)
	}
	next := user("and?\nrehearsal: text more")
	for name, tc := range map[string]struct {
		change func(*bridge.Chat)
		then   []bridge.Message
		same   bool
	}{
		"the same":              {nil, second(assistant("hi there"), next), true},
		"white space":           {nil, second(assistant(" hi\n there "), next), true},
		"the answer in parts":   {nil, append(append(slices.Clone(first), assistant("hi"), assistant("there")), next), true},
		"two messages":          {nil, second(assistant("hi there"), user("one"), next), true},
		"an edited question":    {nil, []bridge.Message{user("hullo"), assistant("hi there"), next}, false},
		"an edited answer":      {nil, second(assistant("hi thera"), next), false},
		"words put in":          {nil, second(assistant("hi there"), user("x"), assistant("y"), next), false},
		"the answer left out":   {nil, append(slices.Clone(first), next), false},
		"another model":         {func(c *bridge.Chat) { c.Model = "other" }, second(assistant("hi there"), next), false},
		"another effort":        {func(c *bridge.Chat) { c.Effort = "high" }, second(assistant("hi there"), next), false},
		"another system text":   {func(c *bridge.Chat) { c.System = "x" }, second(assistant("hi there"), next), false},
		"other tools":           {func(c *bridge.Chat) { *c = withTools(*c, "t") }, second(assistant("hi there"), next), false},
		"an attachment":         {nil, second(assistant("hi there"), bridge.Message{Role: bridge.RoleUser, Text: next.Text, Attachments: []bridge.Attachment{{Data: []byte("x")}}}), true},
		"an attachment earlier": {nil, []bridge.Message{{Role: bridge.RoleUser, Text: first[0].Text, Attachments: []bridge.Attachment{{Data: []byte("x")}}}, assistant("hi there"), next}, false},
		"no tools by choice": {func(c *bridge.Chat) {
			*c = withTools(*c, "t")
			c.Choice.Mode = bridge.ToolNone
		}, second(assistant("hi there"), next), true},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := scripted(t, Options{}, engine.Limits{})
			ask(t.Context(), s, chatOf(first...)).good(t, bridge.EndDone, "hi there")
			c := chatOf(tc.then...)
			if tc.change != nil {
				tc.change(&c)
			}
			if o := ask(t.Context(), s, c); o.err != nil || !strings.HasSuffix(o.text(), "more") {
				t.Fatalf("%q, %v", o.text(), o.err)
			}
			if got := len(a.Sent()); (got == 1) != tc.same {
				t.Errorf("%d sessions: %q", got, heard(a))
			}
		})
	}
}

// Two callers whose conversations look alike from afar do not meet.
func TestSameCountOfMessages(t *testing.T) {
	s, a := scripted(t, Options{}, engine.Limits{})
	var chats []bridge.Chat
	for _, who := range []string{"ann", "bob"} {
		c := chatOf(user("I am " + who + "\nrehearsal: text welcome"))
		c.Messages = append(c.Messages, ask(t.Context(), s, c).good(t, bridge.EndDone, "welcome").reply())
		chats = append(chats, c)
	}
	for i, who := range []string{"ann", "bob"} {
		c := chats[i]
		c.Messages = append(c.Messages, user("still "+who+"\nrehearsal: text yes"))
		ask(t.Context(), s, c).good(t, bridge.EndDone, "yes")
	}
	for id, prompts := range a.Sent() {
		text := strings.Join(prompts, " ")
		if strings.Contains(text, "ann") == strings.Contains(text, "bob") {
			t.Errorf("session %s heard %q", id, text)
		}
	}
	// The same request twice: one continues the session, the other is told the history.
	twin := chats[0]
	twin.Messages = append(twin.Messages, user("still ann\nrehearsal: text yes"))
	if o := ask(t.Context(), s, twin); o.err != nil || len(a.Sent()) != 3 {
		t.Errorf("%v, %d sessions", o.err, len(a.Sent()))
	}
}

func TestTakingIsExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := scripted(t, Options{}, engine.Limits{})
		c := chatOf(user("hello\nrehearsal: text hi"))
		c.Messages = append(c.Messages, ask(t.Context(), s, c).good(t, bridge.EndDone, "hi").reply(), user("x\nrehearsal: delay 1s\nrehearsal: text slow"))
		done := make(chan outcome, 2)
		for range 2 {
			go func() { done <- ask(t.Context(), s, c) }()
		}
		for range 2 {
			if o := <-done; o.err != nil {
				t.Error(o.err)
			}
		}
		if n := len(a.Sent()); n != 2 {
			t.Errorf("%d sessions: %q", n, heard(a))
		}
	})
}

func TestHeldConversationsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := scripted(t, Options{ConversationTTL: 10 * time.Minute, ParkTimeout: 4 * time.Minute, Conversations: 3}, engine.Limits{})
		c := chatOf(user("a\nrehearsal: text b"))
		ask(t.Context(), s, c).good(t, bridge.EndDone, "b")
		o := ask(t.Context(), s, withTools(chatOf(script("tool look {}", "next", "text c")), "look")).good(t, bridge.EndTools, "")
		if st := s.Stats(); st.Conversations != 2 || st.ParkedCalls != 1 {
			t.Errorf("%+v", st)
		}
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if st := s.Stats(); st.Parked != 0 || st.Conversations != 1 || st.Pooled != 1 || st.Running != 0 {
			t.Errorf("after the park timeout: %+v", st)
		}
		// Too late: the results are told as text, in a session that was cleaned.
		late := withTools(chatOf(user("x"), o.reply(), result(o.calls()[0].ID, "found"), user("so?\nrehearsal: text ok")), "look")
		ask(t.Context(), s, late).good(t, bridge.EndDone, "ok")
		<-time.After(6 * time.Minute)
		synctest.Wait()
		if st := s.Stats(); st.Conversations != 1 || st.Pooled != 1 {
			t.Errorf("after the first one's time: %+v", st)
		}
		<-time.After(30 * time.Minute)
		synctest.Wait()
		if st := s.Stats(); st != (Stats{}) {
			t.Errorf("in the end: %+v", st)
		}
		for i := range 6 {
			ask(t.Context(), s, chatOf(say(fmt.Sprint(i)))).good(t, bridge.EndDone, fmt.Sprint(i))
			<-time.After(time.Second) // until the session that had to go is clean
		}
		if st := s.Stats(); st.Conversations != 3 || st.Pooled < 1 {
			t.Errorf("more than are held: %+v", st)
		}
		if opened, _ := a.Counts(); opened > 7 {
			t.Errorf("%d sessions were opened", opened)
		}
	})
}

func TestPrevious(t *testing.T) {
	s, a := scripted(t, Options{}, engine.Limits{})
	c := chatOf(user("one\nrehearsal: text first"))
	c.Answer = "r1"
	ask(t.Context(), s, c).good(t, bridge.EndDone, "first")
	c = withTools(chatOf(user("two\nrehearsal: text second")), "look")
	c.Tools, c.Previous, c.Answer = nil, "r1", "r2"
	ask(t.Context(), s, c).good(t, bridge.EndDone, "second")
	if n := len(a.Sent()); n != 1 {
		t.Errorf("%d sessions: %q", n, heard(a))
	}
	// An earlier answer can be gone on from a second time.
	c.Answer, c.Messages = "r3", []bridge.Message{user("other\nrehearsal: text third")}
	if o := ask(t.Context(), s, c); o.err != nil || !slices.ContainsFunc(heard(a), func(p string) bool {
		return strings.HasPrefix(p, "[DIALOG]\nuser: one") && strings.Contains(p, "assistant: first\nuser: other")
	}) {
		t.Errorf("%v, %q", o.err, heard(a))
	}
	c.Previous = "r9"
	if o := ask(t.Context(), s, c); bridge.CodeOf(o.err) != bridge.CodeNotFound || bridge.AsError(o.err).Remedy == "" || len(o.events) != 0 {
		t.Errorf("%v, %v", o.events, o.err)
	}
	// Parked calls, too.
	c = withTools(chatOf(script("tool look {}", "next", "text seen")), "look")
	c.Answer = "p1"
	o := ask(t.Context(), s, c).good(t, bridge.EndTools, "")
	c.Previous, c.Answer, c.Messages = "p1", "p2", []bridge.Message{result(o.calls()[0].ID, "x")}
	ask(t.Context(), s, c).good(t, bridge.EndDone, "seen")
}

func TestGuardSeesWhatGoesIn(t *testing.T) {
	var seen []string
	s, a := scripted(t, Options{Prompt: func(_ context.Context, door, text string) (string, error) {
		seen = append(seen, door+": "+text)
		if strings.Contains(text, "forbidden") {
			return "", &bridge.Error{Code: bridge.CodeDenied, Message: "no"}
		}
		return strings.ReplaceAll(text, "s3cret", "[REDACTED]"), nil
	}}, engine.Limits{})
	c := withTools(chatOf(user("s3cret\nrehearsal: tool look {}\nrehearsal: next\nrehearsal: text ok")), "look")
	c.System = "the s3cret system"
	o := ask(t.Context(), s, c).good(t, bridge.EndTools, "")
	c.Messages = append(c.Messages, o.reply(), result(o.calls()[0].ID, "a s3cret result"), user("s3cret words"))
	o = ask(t.Context(), s, c).good(t, bridge.EndDone, "ok")
	if got := strings.Join(seen, "\n"); strings.Count(got, "s3cret") != 4 || !strings.Contains(got, "test: a s3cret result") {
		t.Errorf("the guard saw %q", got)
	}
	if got := heard(a); len(got) != 1 || strings.Contains(got[0], "s3cret") {
		t.Errorf("the model heard %q", got)
	}
	// The client's own text counts, not the rewritten one.
	c.Messages = append(c.Messages, o.reply(), user("forbidden"))
	if o := ask(t.Context(), s, c); bridge.CodeOf(o.err) != bridge.CodeDenied || len(o.events) != 0 {
		t.Errorf("%v", o.err)
	}
	c.Messages[len(c.Messages)-1] = say("again")
	ask(t.Context(), s, c).good(t, bridge.EndDone, "again")
	if n := len(a.Sent()); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func TestDirections(t *testing.T) {
	schema := &bridge.ResponseFormat{Name: "x", Schema: json.RawMessage(`{}`)}
	for name, tc := range map[string]struct {
		change func(*bridge.Chat)
		want   string // what the prompt ends with
		code   bridge.Code
	}{
		"nothing":          {func(*bridge.Chat) {}, "hello", ""},
		"required":         {func(c *bridge.Chat) { c.Choice.Mode = bridge.ToolRequired }, sayCallTool, ""},
		"named":            {func(c *bridge.Chat) { c.Choice = bridge.ToolChoice{Mode: bridge.ToolNamed, Name: "b"} }, "calling the tool b.", ""},
		"one at a time":    {func(c *bridge.Chat) { c.OneCall = true }, sayOneCall, ""},
		"json":             {func(c *bridge.Chat) { c.JSON = true }, sayJSON, ""},
		"schema":           {func(c *bridge.Chat) { c.ResponseFormat = schema }, "hello", ""},
		"named, not there": {func(c *bridge.Chat) { c.Choice = bridge.ToolChoice{Mode: bridge.ToolNamed, Name: "z"} }, "", bridge.CodeInvalid},
		"required of none": {func(c *bridge.Chat) { c.Tools, c.Choice.Mode = nil, bridge.ToolRequired }, "", bridge.CodeInvalid},
		"twins":            {func(c *bridge.Chat) { *c = withTools(*c, "a") }, "", bridge.CodeInvalid},
		"a bad name":       {func(c *bridge.Chat) { *c = withTools(*c, "a.b") }, "", bridge.CodeInvalid},
		"no messages":      {func(c *bridge.Chat) { c.Messages = nil }, "", bridge.CodeInvalid},
		"nothing to say":   {func(c *bridge.Chat) { c.Messages = append(c.Messages, assistant("x")) }, "", bridge.CodeInvalid},
		"no agents":        {func(c *bridge.Chat) { c.Profile = bridge.ProfileAgent }, "", bridge.CodeUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := scripted(t, Options{}, engine.Limits{})
			c := withTools(chatOf(user("rehearsal: text hm\nhello")), "a", "b")
			tc.change(&c)
			o := ask(t.Context(), s, c)
			if bridge.CodeOf(o.err) != tc.code {
				t.Fatal(o.err)
			}
			if tc.code == "" && !strings.HasSuffix(heard(a)[0], tc.want) {
				t.Errorf("the prompt is %q", heard(a))
			}
		})
	}
}
