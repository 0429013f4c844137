package sdk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Move takes a chat that rests to the runtime in which new sessions are opened
// now, with every word of it, and returns it there; the old one is of no use
// after that, nor is it if this fails. No turn may run in it.
func (s *session) Move(ctx context.Context) (bridge.Session, error) {
	if s.spec.Profile != bridge.ProfileChat {
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "an agent's session stays in its runtime"}
	}
	stays := s.host.serves(ctx, s.proc)
	if stays == nil {
		return nil, &bridge.Error{Code: bridge.CodeCrashed, Message: "the runtime of the session has exited"}
	}
	// What is stored goes with the process, which must not end before it has
	// been taken away, nor must its host.
	defer s.host.agent.stay(s.host)(ctx)
	defer stays()
	events, err := s.sdk.GetEvents(ctx)
	if err != nil {
		return nil, s.host.noticed(s.proc, s.host.explain(err, "read the session's history"))
	}
	h, proc, done, err := s.host.agent.lane(ctx, s.spec.Profile)
	if err != nil {
		return nil, err
	}
	defer done()
	if proc == s.proc {
		return s, nil
	}
	if err := s.carry(ctx, proc.home); err != nil {
		return nil, err
	}
	next := newSession(h, proc, s.spec)
	if err = next.resume(ctx, s.ID()); err != nil {
		proc.doom(s.ID()) // if it was only too late, the runtime may write it down once more
		return nil, errors.Join(h.noticed(proc, h.explain(err, "move the session")), proc.erase(s.ID()))
	}
	if err := next.knows(ctx, events); err != nil {
		return nil, errors.Join(err, next.Remove(ctx))
	}
	return next, nil
}

// carry has the runtime write the session down and let go of it, and puts what
// is written into the home of another.
func (s *session) carry(ctx context.Context, home string) error {
	if err := s.Close(ctx); err != nil || home == s.proc.home {
		return err
	}
	to := stateOf(home, s.ID())
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		err = os.Rename(stateOf(s.proc.home, s.ID()), to)
	}
	if err != nil {
		return fmt.Errorf("move the session: %w", err)
	}
	return nil
}

// knows checks that the runtime has read all of a history.
func (s *session) knows(ctx context.Context, history []copilot.SessionEvent) error {
	events, err := s.sdk.GetEvents(ctx)
	if err != nil {
		return s.host.explain(err, "read the session's history")
	}
	said, heard := words(history), words(events)
	if len(said) > len(heard) || !slices.Equal(said, heard[:len(said)]) {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "not all of the session has been moved"}
	}
	return nil
}

// words are the ids of the events that make a history. Not among them are the
// system's text, which comes with the session and is written down once, and
// that it was resumed, which is written down with what is said next.
func words(history []copilot.SessionEvent) (ids []string) {
	for _, e := range history {
		switch e.Type() {
		case copilot.SessionEventTypeSystemMessage, copilot.SessionEventTypeSessionResume:
		default:
			ids = append(ids, e.ID)
		}
	}
	return ids
}
