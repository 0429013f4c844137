package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"
)

// every is one value of each event type with every field set.
var every = []Event{
	SessionOpened{"s", "sdk", ProfileAgent, "m", "/w", true, "n", Answers{AnswersProvider, "openai at http://x, model m"}},
	ModelCalled{"m", true},
	ModelFailed{2, &Error{Code: CodeProvider, Message: "boom", Status: 500, RetryAfter: time.Second}},
	TextDelta{"m1", "hi \u2028 <&>", "a"},
	ReasoningDelta{"r", "hm", "a"},
	MessageDone{"m1", "hi", "hm", "m", []ToolCall{{ID: "c", Name: "bash", Args: map[string]any{"command": "ls"}, Server: "s", Parent: "p"}}, "a"},
	MessageRetracted{"m1"},
	ToolStarted{ToolCall{ID: "c", Name: "bash"}, "a"},
	ToolProgress{"c", "out"},
	ToolFinished{"c", "bash", true, "r", "code", "e", time.Second, "a"},
	ToolRequested{"q", ToolCall{ID: "c", Name: "t"}},
	PermissionAsked{PermissionRequest{ID: "q", Kind: PermissionShell, Native: "shell", CallID: "c", Tool: "bash", Server: "s", Intention: "i",
		Command: "ls", Segments: []string{"ls"}, Paths: []string{"/p"}, URLs: []string{"u"}, Diff: "d", Args: "a", ReadOnly: true}},
	PermissionDecided{"q", "c", Decision{Verdict: Allow, Reason: "ok"}},
	InputAsked{"q", Question{"?", []string{"a"}, true}},
	InputAnswered{"q"},
	UsageReported{Usage{"m", 1, 2, 3, 4, 5, 6, 0.5, 0.75, 0.25}, "length", &ModelCall{"i", "p", "high", "user", time.Second, time.Millisecond, time.Minute,
		map[string]Quota{"chat": {300, 12.5, true, 1, true, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}}, "a", "c"},
	PlanChanged{"p", []PlanEntry{{"step", StepRunning, "high"}}},
	ModeChanged{"plan"},
	ContextMeasured{1, 2},
	UserSaid{"u"},
	Notice{"info", "t", "a", "b"},
	Failed{&Error{Code: CodeTimeout, Message: "late", Remedy: "wait", Detail: &ErrorDetail{"t", "c", "p", "s", "u", "r", true, ProblemQuota, "2027-01-01", []string{"m"}}}},
	TurnEnded{EndDone, Usage{InputTokens: 1}, time.Minute},
	Other{"x.y", map[string]any{"k": "v"}},
}

func TestEventsSurviveTheWire(t *testing.T) {
	seen := map[EventType]bool{}
	for _, ev := range every {
		seen[TypeOf(ev)] = true
		b, err := EncodeEvent(ev)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(b, "\n\r") || !json.Valid(b) {
			t.Errorf("%s is not one line of JSON: %s", TypeOf(ev), b)
		}
		got, err := DecodeEvent(b)
		if err != nil || !reflect.DeepEqual(got, ev) {
			t.Errorf("%s came back as %#v, %v", TypeOf(ev), got, err)
		}
	}
	if len(seen) != 24 {
		t.Errorf("%d types are covered; add new ones to the list", len(seen))
	}
}

func TestUnknownEventsAreKept(t *testing.T) {
	line := []byte(`{"type":"from_the_future","x":[1,2]}`)
	ev, err := DecodeEvent(line)
	o, ok := ev.(Other)
	if err != nil || !ok || o.Name != "from_the_future" {
		t.Fatalf("%#v, %v", ev, err)
	}
	if raw, ok := o.Data.(json.RawMessage); !ok || !bytes.Equal(raw, line) {
		t.Errorf("data %s", o.Data)
	}
}

func TestBadEvents(t *testing.T) {
	for _, line := range []string{"", "null", "[]", "{}", `{"type":1}`, `{"type":"text","text":1}`, "{"} {
		if ev, err := DecodeEvent([]byte(line)); CodeOf(err) != CodeInvalid {
			t.Errorf("%q gave %#v, %v", line, ev, err)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for _, ev := range every {
		b, err := EncodeEvent(ev)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ev, err := DecodeEvent(b)
		if err != nil {
			return
		}
		again, err := EncodeEvent(ev)
		if err != nil {
			t.Fatalf("decoded but not encodable: %v", err)
		}
		if _, err := DecodeEvent(again); err != nil {
			t.Errorf("%s encoded as %s: %v", b, again, err)
		}
	})
}

func TestErrors(t *testing.T) {
	cause := errors.New("disk full")
	e := &Error{Code: CodeUnavailable, Message: "cannot start", Cause: cause}
	if e.Error() != "cannot start: disk full" || !errors.Is(e, cause) || CodeOf(errors.Join(errors.New("x"), e)) != CodeUnavailable {
		t.Errorf("%v", e)
	}
	if AsError(cause).Code != CodeInternal || AsError(nil) != nil || CodeOf(nil) != "" {
		t.Error("wrapping")
	}
}

func TestUsageAdds(t *testing.T) {
	a := Usage{Model: "m", Calls: 1, InputTokens: 1}
	if got := a.Add(a); got.Model != "m" || got.Calls != 2 || got.InputTokens != 2 {
		t.Errorf("%+v", got)
	}
	if got := a.Add(Usage{Model: "other", Calls: 1}); got.Model != "" {
		t.Errorf("mixed models are called %q", got.Model)
	}
}

func TestClasses(t *testing.T) {
	for _, tc := range []struct {
		err     error
		class   Class
		retries int // with a cap of 3
	}{
		{&Error{Code: CodeRateLimited}, ClassRateLimit, 3},
		{&Error{Code: CodeProvider, Status: 500}, ClassTransient, 2},
		{&Error{Code: CodeProvider}, ClassTransient, 2},
		{&Error{Code: CodeProvider, Status: 400}, ClassFatal, 0},
		{&Error{Code: CodeUnauthenticated, Status: 401}, ClassFatal, 0},
		{errors.New("x"), ClassFatal, 0},
		{nil, ClassFatal, 0},
	} {
		if c := Classify(tc.err); c != tc.class || c.Retries(3) != tc.retries {
			t.Errorf("%v: class %d, %d retries", tc.err, c, c.Retries(3))
		}
	}
	for text, want := range map[string]Recovery{
		"429 Too Many Requests": RecoverRetry, "ECONNRESET": RecoverRetry, "ENOENT: no such file or directory": RecoverSkip, "boom": RecoverAbort,
	} {
		if got := ClassifyText(text).Recovery(1, 3); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := ClassTransient.Recovery(3, 3); got != RecoverAbort {
		t.Errorf("after three tries: %s", got)
	}
}

func TestVerdictsFailClosed(t *testing.T) {
	var d Decision
	if d.Verdict != Deny {
		t.Error("the zero decision allows")
	}
	for text, want := range map[string]Verdict{"allow": Allow, "deny": Deny, "Allow": Deny, "": Deny} {
		var v Verdict
		if err := v.UnmarshalText([]byte(text)); err != nil || v != want {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
}
