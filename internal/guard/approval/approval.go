// Package approval has the questions that a person must answer before an action
// is allowed, and makes every character of their text visible. It asks on a
// terminal; askers for other ways belong to the APIs and to package editor. It
// does not decide when to ask: the guard does, and calls an Asker. An asker
// that cannot reach a person denies.
package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Question is one thing that needs a person's consent. It has all of what
// would happen, without secrets; askers get the text to show from Whole.
type Question struct {
	// Request is the same for programs. It has the ID of the PermissionAsked
	// event that tells of it, if there is one.
	Request bridge.PermissionRequest
	// Who wants it; "" for Copilot.
	Who string
	// Session, Door, Client and Dir say which session of which client wants it,
	// and in which directory it works.
	Session, Door, Client, Dir string
	// Reason is why it is a question, and Rule the rule that made it one.
	Reason, Rule string
	// Summary is one line that begins with what would happen, such as
	// "run: npm test". It may be shortened.
	Summary string
	// Detail is all that Summary does not say.
	Detail string
	// Says is what the model says about it. It may be untrue.
	Says string
	// SHA256 is of what would happen, secrets included. Consent is for
	// nothing else.
	SHA256 string
	// Rules are those that would be written into the user's own policy file to
	// allow it always. Without any Always is not offered.
	Rules []string
	// Outside are paths outside the workspace that would be granted.
	Outside []string
	// Unshown is why it cannot be shown whole; "" if it can.
	Unshown string
}

// MaxShown bounds the text of a question, in bytes. A longer one is
// refused: a person would not read it, and no part of it may be left out.
const MaxShown = 256 << 10

const (
	maxSays = 300 // characters of the model's own words
	longAgo = 10  // lines after which the summary is said again
)

// Whole is the text of a question with every character visible: a line that
// says who wants what, and the lines below it. An asker shows both, whole. It
// fails if they are longer than most bytes, or MaxShown if that is less.
func (q Question) Whole(most int) (lead, body string, err error) {
	if q.Unshown != "" {
		return "", "", refused("it cannot be shown whole: " + q.Unshown)
	}
	who := "Copilot"
	if q.Who != "" {
		who = Visible(q.Who)
	}
	if len(q.Request.Agents) > 0 {
		who += " (sub-agent " + Visible(strings.Join(q.Request.Agents, " › ")) + ")"
	}
	lead = who + " wants to " + Visible(q.Summary)
	most = min(most, MaxShown)
	var parts []string
	if detail := Lines(strings.TrimRight(q.Detail, "\n")); detail != "" {
		parts = append(parts, detail)
	}
	if len(q.Rules) > 0 {
		parts = append(parts, "always: writes into your policy file "+Visible(strings.Join(q.Rules, ", ")))
	}
	if q.Says != "" {
		parts = append(parts, fmt.Sprintf("%s says: “%s”", who, Clip(Visible(q.Says), maxSays)))
	}
	body = strings.Join(parts, "\n")
	if strings.Count(body, "\n") >= longAgo || len(body) > longAgo*80 {
		body += "\nAll of the above is one question: " + Visible(q.Summary)
	}
	if size := len(lead) + len(body); size > most {
		return "", "", tooLong(size, most)
	}
	return lead, body, nil
}

// Clip shortens a line to a number of characters.
func Clip(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// Fenced puts a text into a block that Markdown shows as it stands. Otherwise
// parts of it could vanish, such as comments.
func Fenced(s string) string {
	longest, run := 2, 0
	for i := range len(s) {
		if run++; s[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	return fence + "\n" + s + "\n" + fence
}

func tooLong(size, most int) error {
	return refused(fmt.Sprintf("it is %d bytes long, and only what has at most %d can be shown whole", size, most))
}

func refused(why string) error {
	return &bridge.Error{Code: bridge.CodeDenied, Message: why,
		Remedy: "do it in smaller parts, such as several files or edits, or allow it in the policy"}
}

// Consent is how far the person agrees. The zero value denies.
type Consent int

const (
	No      Consent = iota
	Once            // this time
	Session         // this, and the very same thing again in this session
	Always          // this, and whatever the question's Rules allow from now on
)

// String puts it into words that follow a place, such as "dashboard: ".
func (c Consent) String() string {
	switch c {
	case Once:
		return "allowed once"
	case Session:
		return "allowed for the session"
	case Always:
		return "allowed always"
	case No:
	}
	return "denied"
}

// Answer is what the person said. The zero value denies.
type Answer struct {
	Consent
	// Reason is why not, in the person's words. The agent is told.
	Reason string
	// By is where the person answered, such as "terminal"; "" if nobody did.
	By string
}

// ElsewhereError is the cause with which the context of a question ends that was
// answered in another place.
type ElsewhereError struct {
	By   string // the place
	Said string // such as "allowed once"
}

func (e *ElsewhereError) Error() string {
	return "answered in the " + Visible(e.By) + ": " + Visible(e.Said)
}

// Elsewhere returns the reason why a question needs no answer any more if that
// is an answer in another place, or nil.
func Elsewhere(ctx context.Context) *ElsewhereError {
	var e *ElsewhereError
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}

// Asker puts a question to a person. It is called concurrently, and returns
// when ctx ends at the latest. It shows the whole question or refuses.
type Asker interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Yes consents to everything, as its user asked for with --yes.
type Yes struct{}

// Ask answers Once, but grants nothing outside the workspace: no person has
// seen the paths.
func (Yes) Ask(_ context.Context, q Question) (Answer, error) {
	if len(q.Outside) > 0 {
		return Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "--yes grants nothing outside the workspace",
			Remedy: "run without --yes to be asked, or name it in sandbox.read or sandbox.write of your policy"}
	}
	return Answer{Consent: Once, By: "--yes"}, nil
}

// Nobody is the asker for a session without a person.
type Nobody struct{}

// Alone says whether an asker can reach nobody now.
func Alone(a Asker) bool {
	if a, ok := a.(interface{ Alone() bool }); ok {
		return a.Alone()
	}
	return false
}

// Alone is always true.
func (Nobody) Alone() bool { return true }

// Ask always refuses, and says how to be asked.
func (Nobody) Ask(context.Context, Question) (Answer, error) {
	return Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "it needs approval and nobody is there to give it",
		Remedy: "run in a terminal to be asked, or pass --yes"}
}
