package engine

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Commands lists the slash commands of the session; none if the agent has no
// such thing.
func (s *Session) Commands(ctx context.Context) ([]bridge.Command, error) {
	inner, err := s.live(ctx)
	if err != nil {
		return nil, err
	}
	if c, ok := inner.(Commander); ok {
		return c.Commands(ctx)
	}
	return nil, nil
}

// Invoke runs a slash command. What it says is masked as a turn's words are.
func (s *Session) Invoke(ctx context.Context, name, input string) (bridge.CommandResult, error) {
	inner, err := s.live(ctx)
	if err != nil {
		return bridge.CommandResult{}, err
	}
	c, ok := inner.(Commander)
	if !ok {
		return bridge.CommandResult{}, s.engine.unsupported("run commands")
	}
	r, err := c.Invoke(ctx, name, input)
	if err == nil {
		s.masked(func(ev bridge.Event, _ error) bool {
			if n, ok := ev.(bridge.Notice); ok {
				r.Text = n.Text
			}
			return true
		})(bridge.Notice{Text: r.Text}, nil)
	}
	return r, err
}
