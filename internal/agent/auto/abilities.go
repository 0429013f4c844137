package auto

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// What agents may be able to do besides. An agent in use that cannot do it is
// asked for nothing, or the answer is that it is not supported.
type (
	lister interface {
		List(ctx context.Context) ([]bridge.SessionInfo, error)
		Delete(ctx context.Context, id string) error
	}
	modelLister interface {
		Models(ctx context.Context) ([]bridge.Model, error)
	}
	prober interface {
		Status(ctx context.Context) (bridge.AgentStatus, error)
		Ping(ctx context.Context) error
	}
	warmer interface {
		Warm(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error
	}
	widener interface {
		Widen(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error
	}
	rotator interface {
		Memory(p bridge.Profile) int64
		Rotate(ctx context.Context, p bridge.Profile) error
		Shrink(ctx context.Context, p bridge.Profile, times float64) (renewed bool, err error)
	}
)

func cannot(agent Agent, what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "the " + agent.Name() + " agent cannot " + what}
}

// List returns the stored sessions of the agent in use.
func (a *Auto) List(ctx context.Context) (out []bridge.SessionInfo, err error) {
	err = a.try(ctx, func(agent Agent, _ int) (err error) {
		l, ok := agent.(lister)
		if !ok {
			return cannot(agent, "list sessions")
		}
		out, err = l.List(ctx)
		return err
	})
	return out, err
}

// Delete removes a stored session of the agent in use.
func (a *Auto) Delete(ctx context.Context, id string) error {
	return a.try(ctx, func(agent Agent, _ int) error {
		if l, ok := agent.(lister); ok {
			return l.Delete(ctx, id)
		}
		return cannot(agent, "delete sessions")
	})
}

// Models lists what can answer.
func (a *Auto) Models(ctx context.Context) (out []bridge.Model, err error) {
	err = a.try(ctx, func(agent Agent, _ int) (err error) {
		l, ok := agent.(modelLister)
		if !ok {
			return cannot(agent, "list models")
		}
		out, err = l.Models(ctx)
		return err
	})
	return out, err
}

// Status is that of the first agent that can be asked.
func (a *Auto) Status(ctx context.Context) (out bridge.AgentStatus, err error) {
	err = a.try(ctx, func(agent Agent, _ int) (err error) {
		p, ok := agent.(prober)
		if !ok {
			return cannot(agent, "report its status")
		}
		out, err = p.Status(ctx)
		return err
	})
	return out, err
}

// Ping asks the agent in use for a sign of life.
func (a *Auto) Ping(ctx context.Context) error {
	return a.try(ctx, func(agent Agent, _ int) error {
		if p, ok := agent.(prober); ok {
			return p.Ping(ctx)
		}
		return nil
	})
}

// Warm pays start-up costs in advance, where the agent in use can.
func (a *Auto) Warm(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error {
	agent, _, err := a.current(ctx)
	if err != nil {
		return err
	}
	if w, ok := agent.(warmer); ok {
		return w.Warm(ctx, p, provider, model)
	}
	return nil
}

// Widen gives a profile one more runtime, where the agent in use can.
func (a *Auto) Widen(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error {
	agent, _, err := a.current(ctx)
	if err != nil {
		return err
	}
	if w, ok := agent.(widener); ok {
		return w.Widen(ctx, p, provider, model)
	}
	return nil
}

// Memory is what the runtime of a profile holds; 0 if not known.
func (a *Auto) Memory(p bridge.Profile) int64 {
	if r := a.rotator(); r != nil {
		return r.Memory(p)
	}
	return 0
}

// Rotate has new sessions opened in a new runtime, where the agent can.
func (a *Auto) Rotate(ctx context.Context, p bridge.Profile) error {
	agent, _, err := a.current(ctx)
	if err != nil {
		return err
	}
	if r, ok := agent.(rotator); ok {
		return r.Rotate(ctx, p)
	}
	return nil
}

// Shrink goes back to one runtime that is not too large, where the agent can.
func (a *Auto) Shrink(ctx context.Context, p bridge.Profile, times float64) (renewed bool, err error) {
	if r := a.rotator(); r != nil {
		return r.Shrink(ctx, p, times)
	}
	return false, nil
}

// rotator is the agent in use, if there is one yet and it can.
func (a *Auto) rotator() rotator {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at >= len(a.ways) {
		return nil
	}
	r, _ := a.ways[a.at].agent.(rotator)
	return r
}

// Capabilities are those of the agent in use; nothing, if it does not say.
func (a *Auto) Capabilities() map[bridge.Capability]bridge.Support {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at < len(a.ways) {
		if d, ok := a.ways[a.at].agent.(interface {
			Capabilities() map[bridge.Capability]bridge.Support
		}); ok {
			return d.Capabilities()
		}
	}
	return nil
}
