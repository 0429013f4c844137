package chat

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

const (
	listFor = time.Minute // how long a list of models is good
	// listAgain is the pause after a list that could not be had, so that
	// answers which do not need it are not held up each time.
	listAgain = 5 * time.Second
	listed    = 20 // how many models an error names
)

// catalog knows the models and what clients call them.
type catalog struct {
	engine *engine.Engine
	opts   *Options

	fetch sync.Mutex // one list at a time

	mu     sync.Mutex
	models []bridge.Model
	err    error // of the last list
	until  time.Time
	seen   map[string]bridge.Model // every model that was ever listed
}

func newCatalog(e *engine.Engine, opts *Options) *catalog {
	return &catalog{engine: e, opts: opts, seen: map[string]bridge.Model{}}
}

// cached returns the list if it is fresh enough.
func (c *catalog) cached() (models []bridge.Model, fresh bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.models, time.Now().Before(c.until), c.err
}

// list returns the models; an old list is better than none.
func (c *catalog) list(ctx context.Context) ([]bridge.Model, error) {
	if models, fresh, err := c.cached(); fresh {
		return models, err
	}
	c.fetch.Lock()
	defer c.fetch.Unlock()
	old, fresh, err := c.cached()
	if fresh {
		return old, err
	}
	models, err := c.engine.Models(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.models, c.err, c.until = models, nil, time.Now().Add(listFor)
		for _, m := range models {
			c.seen[m.ID] = m
		}
	case ctx.Err() != nil:
		return nil, err // says nothing about the list
	default:
		c.until = time.Now().Add(listAgain)
		if c.err = err; len(c.models) > 0 {
			c.err = nil
		}
	}
	return c.models, c.err
}

func (c *catalog) known(id string) (bridge.Model, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.seen[id]
	return m, ok
}

// Refresh has the list of models asked for anew when it is next needed.
func (s *Service) Refresh() {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	s.catalog.until = time.Time{}
}

// Models is the list that clients see: every model as chat, and as agent if
// agents are served.
func (s *Service) Models(ctx context.Context) ([]bridge.ChatModel, error) {
	models, err := s.catalog.list(ctx)
	if err != nil {
		return nil, err
	}
	var out []bridge.ChatModel
	for _, m := range models {
		out = append(out, bridge.ChatModel{Model: m, Name: m.ID, Profile: bridge.ProfileChat})
	}
	if s.opts.AgentSpec != nil {
		for _, m := range models {
			out = append(out, asAgent(m))
		}
	}
	return out, nil
}

func asAgent(m bridge.Model) bridge.ChatModel {
	return bridge.ChatModel{Model: m, Name: agentPrefix + m.ID, Profile: bridge.ProfileAgent}
}

// Model finds the model that a client means.
func (s *Service) Model(ctx context.Context, name string) (bridge.ChatModel, error) {
	if m, ok := s.exact(name); ok {
		return m, nil
	}
	models, err := s.catalog.list(ctx)
	if err != nil {
		return bridge.ChatModel{}, err
	}
	if m, ok := s.exact(name); ok {
		return m, nil
	}
	if target, ok := s.alias(name); ok {
		if m, ok := s.among(target, models); ok {
			return m, nil
		}
	}
	if m, ok := s.among(name, models); ok {
		return m, nil
	}
	if s.opts.UnknownModel == "default" && len(models) > 0 {
		def := s.opts.DefaultModel
		if def == "" {
			def = models[0].ID
		}
		if strings.HasPrefix(name, agentPrefix) && !strings.HasPrefix(def, agentPrefix) {
			def = agentPrefix + def
		}
		if m, ok := s.among(def, models); ok {
			m.Instead = name
			return m, nil
		}
	}
	return bridge.ChatModel{}, s.unknown(name, models)
}

// exact knows a model by its very name, without asking for the list if it
// has been on one before.
func (s *Service) exact(name string) (bridge.ChatModel, bool) {
	id, agent := strings.CutPrefix(name, agentPrefix)
	m, ok := s.catalog.known(id)
	switch {
	case !ok || agent && s.opts.AgentSpec == nil:
		return bridge.ChatModel{}, false
	case agent:
		return asAgent(m), true
	}
	return bridge.ChatModel{Model: m, Name: m.ID, Profile: bridge.ProfileChat}, true
}

// alias is what the configuration says that a name stands for. The alias of a
// chat model serves for the agent, too.
func (s *Service) alias(name string) (string, bool) {
	for _, prefix := range []string{"", agentPrefix} {
		bare, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		for _, from := range slices.Sorted(maps.Keys(s.opts.Aliases)) {
			if strings.EqualFold(from, bare) {
				return prefix + strings.TrimPrefix(s.opts.Aliases[from], prefix), true
			}
		}
	}
	return "", false
}

func (s *Service) among(name string, models []bridge.Model) (bridge.ChatModel, bool) {
	id, agent := strings.CutPrefix(name, agentPrefix)
	if agent && s.opts.AgentSpec == nil {
		return bridge.ChatModel{}, false
	}
	ids := make([]string, len(models))
	for i, m := range models {
		ids[i] = m.ID
	}
	found, ok := find(id, ids)
	if !ok {
		return bridge.ChatModel{}, false
	}
	m := models[slices.Index(ids, found)]
	if agent {
		return asAgent(m), true
	}
	return bridge.ChatModel{Model: m, Name: m.ID, Profile: bridge.ProfileChat}, true
}

func (s *Service) unknown(name string, models []bridge.Model) error {
	var names []string
	for _, m := range models {
		names = append(names, m.ID)
	}
	more := ""
	if n := len(names) - listed; n > 0 {
		names, more = names[:listed], fmt.Sprintf(" and %d more", n)
	}
	message := fmt.Sprintf("there is no model %q; there are %s%s", name, strings.Join(names, ", "), more)
	if len(names) == 0 {
		message = fmt.Sprintf("there is no model %q", name)
	}
	remedy := "use one of these, or give the name a meaning with an alias (facade.aliases)"
	if strings.HasPrefix(name, agentPrefix) && s.opts.AgentSpec == nil && s.opts.NoAgents != "" {
		remedy = s.opts.NoAgents
	}
	if s.opts.AgentSpec != nil {
		remedy += `; with "agent/" before it a model works in the served workspace`
	}
	return &bridge.Error{Code: bridge.CodeNotFound, Message: message, Remedy: remedy}
}
