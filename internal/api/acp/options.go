package acp

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
)

// modePrefix begins the mode ids, which are those of Copilot's own agent. Clients
// may leave it out.
const modePrefix = "https://agentclientprotocol.com/protocol/session-modes#"

var modes = []struct{ mode, short, name, about string }{
	{bridge.ModeInteractive, "agent", "Agent", "Copilot works in the workspace and asks where the policy says so"},
	{bridge.ModePlan, "plan", "Plan", "Copilot makes a plan before anything is changed"},
	{bridge.ModeAutopilot, "autopilot", "Autopilot", "Copilot goes on until the task is done; the policy holds and is asked about as ever"},
}

func modeID(mode string) string {
	for _, m := range modes {
		if m.mode == mode {
			return modePrefix + m.short
		}
	}
	return modePrefix + mode
}

// modeOf reads a mode's id, long or short.
func modeOf(id string) (string, bool) {
	short := strings.TrimPrefix(id, modePrefix)
	for _, m := range modes {
		if short == m.short || short == m.mode {
			return m.mode, true
		}
	}
	return "", false
}

// The ids of the options.
const (
	optionMode   = "mode"
	optionModel  = "model"
	optionEffort = "reasoning_effort"
)

// choose sets what a session begins with.
func (s *session) choose(models []bridge.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = models
	s.mode = bridge.ModeInteractive
	if mode, ok := modeOf(s.live.Mode()); ok {
		s.mode = mode
	}
	s.model, s.effort = cmp.Or(s.live.Opened().Model, s.door.opts.Model), s.door.opts.Effort
	if s.model == "" && len(models) > 0 {
		s.model = models[0].ID
	}
	if s.model != "" && !slices.ContainsFunc(models, func(m bridge.Model) bool { return m.ID == s.model }) {
		s.models = append([]bridge.Model{{ID: s.model, Name: s.model}}, models...)
	}
}

// current is the model in use.
func (s *session) current() bridge.Model {
	for _, m := range s.models {
		if m.ID == s.model {
			return m
		}
	}
	return bridge.Model{ID: s.model}
}

// state is what session/new and its like answer.
func (s *session) state() *acpwire.NewSessionResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &acpwire.NewSessionResponse{Modes: &acpwire.Modes{Current: modeID(s.mode)}, ConfigOptions: s.options()}
	for _, m := range modes {
		out.Modes.Available = append(out.Modes.Available, acpwire.Mode{ID: modeID(m.mode), Name: m.name, Description: m.about})
	}
	return out
}

// options are the present choices; the caller holds the lock.
func (s *session) options() []acpwire.ConfigOption {
	mode := acpwire.ConfigOption{Type: "select", ID: optionMode, Name: "Mode", Category: "mode", Current: modeID(s.mode)}
	for _, m := range modes {
		mode.Options = append(mode.Options, acpwire.ConfigChoice{Value: modeID(m.mode), Name: m.name, Description: m.about})
	}
	out := []acpwire.ConfigOption{mode}
	if s.model == "" {
		return out
	}
	model := acpwire.ConfigOption{Type: "select", ID: optionModel, Name: "Model", Category: "model", Current: s.model}
	for _, m := range s.models {
		model.Options = append(model.Options, acpwire.ConfigChoice{Value: m.ID, Name: cmp.Or(m.Name, m.ID)})
	}
	out = append(out, model)
	now := s.current()
	if len(now.ReasoningEfforts) == 0 {
		return out
	}
	effort := acpwire.ConfigOption{Type: "select", ID: optionEffort, Name: "Reasoning effort", Category: "thought_level", Current: s.effortIn(now)}
	for _, e := range now.ReasoningEfforts {
		effort.Options = append(effort.Options, acpwire.ConfigChoice{Value: e, Name: strings.ToUpper(e[:1]) + e[1:]})
	}
	return append(out, effort)
}

// effortIn is the effort in use with a model that knows efforts.
func (s *session) effortIn(m bridge.Model) string {
	for _, e := range []string{s.effort, m.DefaultEffort} {
		if slices.Contains(m.ReasoningEfforts, e) {
			return e
		}
	}
	return m.ReasoningEfforts[0]
}

func (d *door) setMode(ctx context.Context, p acpwire.SetModeRequest) (any, error) {
	s, err := d.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.setMode(ctx, "modeId", p.ModeID)
}

func (s *session) setMode(ctx context.Context, field, id string) error {
	mode, ok := modeOf(id)
	if !ok {
		return invalid(field, "there is no mode "+id+"; there are agent, plan and autopilot")
	}
	return s.enter(ctx, mode)
}

// enter goes over to a mode and tells the client.
func (s *session) enter(ctx context.Context, mode string) error {
	s.mu.Lock()
	same := s.mode == mode
	s.mode = mode
	s.mu.Unlock()
	if same {
		return nil
	}
	if err := s.live.SetMode(ctx, mode); err != nil {
		return err
	}
	if err := s.update(ctx, &acpwire.CurrentMode{Type: acpwire.UpdateMode, ModeID: modeID(mode)}); err != nil {
		return err
	}
	return s.tellOptions(ctx)
}

func (s *session) tellOptions(ctx context.Context) error {
	s.mu.Lock()
	now := s.options()
	s.mu.Unlock()
	return s.update(ctx, &acpwire.ConfigUpdate{Type: acpwire.UpdateConfig, ConfigOptions: now})
}

func (d *door) setModel(ctx context.Context, p acpwire.SetModelRequest) (any, error) {
	s, err := d.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	if err := s.switchTo(ctx, "modelId", p.ModelID, ""); err != nil {
		return nil, err
	}
	return struct{}{}, s.tellOptions(ctx)
}

func (d *door) setOption(ctx context.Context, p acpwire.SetConfigOptionRequest) (any, error) {
	s, err := d.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	value, ok := p.Value.(string)
	if !ok {
		return nil, invalid("value", "it must be a text: all options here are choices")
	}
	switch p.ConfigID {
	case optionMode:
		err = s.setMode(ctx, "value", value)
	case optionModel:
		err = s.switchTo(ctx, "value", value, "")
	case optionEffort:
		s.mu.Lock()
		now := s.current()
		s.mu.Unlock()
		if !slices.Contains(now.ReasoningEfforts, value) {
			return nil, invalid("value", now.ID+" has no effort "+value+"; it has "+strings.Join(now.ReasoningEfforts, ", "))
		}
		err = s.switchTo(ctx, "value", now.ID, value)
	case "":
		return nil, invalid("configId", "it is required")
	default:
		return nil, invalid("configId", "there is no option "+p.ConfigID+"; there are mode, model and, for some models, reasoning_effort")
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return acpwire.SetConfigOptionResponse{ConfigOptions: s.options()}, nil
}

// switchTo changes the model. Without an effort the old one stays if possible.
func (s *session) switchTo(ctx context.Context, field, model, effort string) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.models, func(m bridge.Model) bool { return m.ID == model })
	if i >= 0 && effort == "" && slices.Contains(s.models[i].ReasoningEfforts, s.effort) {
		effort = s.effort
	}
	s.mu.Unlock()
	if i < 0 {
		return invalid(field, "there is no model "+model)
	}
	if err := s.live.SetModel(ctx, model, effort); err != nil {
		return err
	}
	s.mu.Lock()
	s.model, s.effort = model, effort
	s.mu.Unlock()
	return nil
}
