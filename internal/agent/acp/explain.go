package acp

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// explain gives an error of a request its code. what completes "could not …".
func (l *link) explain(err error, what string) error {
	if err == nil {
		return nil
	}
	var known *bridge.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, jsonrpc.ErrClosed) {
		out := &bridge.Error{Code: bridge.CodeCrashed, Message: "the ACP agent exited; could not " + what, Cause: l.scrub(err),
			Remedy: "try again: the agent is started anew"}
		if words := l.quoted(); words != "" {
			out.Message = "the ACP agent exited (it said: " + words + "); could not " + what
		}
		return out
	}
	out := &bridge.Error{Code: bridge.CodeUnavailable, Message: "could not " + what, Cause: l.scrub(err)}
	text := strings.ToLower(err.Error())
	switch jsonrpc.CodeOf(err) {
	case acpwire.CodeAuthRequired:
		out.Code, out.Message, out.Cause = bridge.CodeUnauthenticated, "the ACP agent wants a login; could not "+what, nil
		out.Remedy = l.howToLogIn()
	case acpwire.CodeResourceNotFound:
		out.Code = bridge.CodeNotFound
	case jsonrpc.CodeInvalidParams:
		out.Code = bridge.CodeInvalid
		if strings.Contains(text, "not found") || strings.Contains(text, "unknown session") {
			out.Code = bridge.CodeNotFound
		}
	case jsonrpc.CodeMethodNotFound:
		out.Code = bridge.CodeUnsupported
	case jsonrpc.CodeCanceled:
		out.Code = bridge.CodeCanceled
	case jsonrpc.CodeInternal:
		if strings.Contains(text, "busy") {
			out.Code = bridge.CodeBusy
		}
	}
	return out
}

// howToLogIn words the agent's own ways to log in.
func (l *link) howToLogIn() string {
	if l.opts.Copilot {
		return "run `copilot-bridge login`, set COPILOT_GITHUB_TOKEN, or configure a provider with COPILOT_BYOK_PROVIDER"
	}
	var ways []string
	for _, m := range l.init.AuthMethods {
		switch login := m.Login(); {
		case login != nil:
			ways = append(ways, "run `"+strings.Join(login, " ")+"`")
		case m.Type == "terminal" && l.opts.Program != "":
			ways = append(ways, "run `"+strings.Join(append([]string{l.opts.Program}, m.Args...), " ")+"`")
		case m.Description != "":
			ways = append(ways, m.Name+": "+m.Description)
		default:
			ways = append(ways, m.Name)
		}
	}
	if len(ways) == 0 {
		return "log in with the agent's own program"
	}
	return strings.Join(ways, ", or ")
}

func (l *link) explainStart(err error) error {
	var known *bridge.Error
	if errors.As(err, &known) && !errors.Is(err, program.ErrNotFound) {
		return known
	}
	out := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the ACP agent did not start", Cause: l.scrub(err),
		Remedy: "see what " + l.opts.Program + " says by itself: it must speak ACP on its standard input and output"}
	switch {
	case l.opts.Program == "":
		out.Message = "no ACP agent answers at " + l.opts.Address
		out.Remedy = "start one there, for instance with `copilot --acp --port N`, or correct ABP_COPILOT_ACP_URL"
	case errors.Is(err, program.ErrNotFound):
		out.Message = "the program " + l.opts.Program + " was not found"
		out.Remedy = "correct ABP_COPILOT_CMD, or unset it and run `copilot-bridge setup --acp`"
	case jsonrpc.CodeOf(err) != 0:
		out.Message = "the ACP agent refused to begin"
	}
	if words := l.quoted(); words != "" {
		out.Message += " (it said: " + words + ")"
	}
	return out
}

// scrub removes the credentials that the agent was given from an error.
func (l *link) scrub(err error) error { return session.ScrubError(err, l.opts.Provider, l.opts.Token) }

func (l *link) scrubText(text string) string {
	return session.Scrub(text, l.opts.Provider, l.opts.Token)
}

var statusText = regexp.MustCompile(`\b([45]\d\d)\b`)

// modelError is a failure of the model, of which only a sentence is known.
func (l *link) modelError(text string) *bridge.Error {
	e := &bridge.Error{Code: bridge.CodeProvider, Message: l.scrubText(text)}
	if m := statusText.FindString(text); m != "" {
		e.Status, _ = strconv.Atoi(m)
	}
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden, session.LoginRefused(text):
		e.Code, e.Remedy = bridge.CodeUnauthenticated, l.howToLogIn()
		if l.opts.Provider != nil {
			e.Remedy = "check COPILOT_BYOK_API_KEY"
		}
	case e.Status == http.StatusTooManyRequests:
		e.Code, e.Remedy = bridge.CodeRateLimited, "wait a little and try again"
	}
	return e
}
