package acp

import (
	"context"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// configured takes note of what the agent says about a new session.
func (s *conversation) configured(resp acpwire.NewSessionResponse) {
	s.mu.Lock()
	s.modes, s.options = resp.Modes, resp.ConfigOptions
	if s.modes != nil {
		s.baseMode = s.modes.Current
	}
	models := modelsOf(s.options)
	s.mu.Unlock()
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	if models != nil || s.agent.models == nil {
		s.agent.models = append([]bridge.Model{}, models...)
	}
}

// modelsOf reads the models out of the option that chooses one.
func modelsOf(options []acpwire.ConfigOption) []bridge.Model {
	o := option(options, "model", "model")
	if o == nil {
		return nil
	}
	var out []bridge.Model
	for _, c := range flat(o.Options) {
		out = append(out, bridge.Model{ID: c.Value, Name: c.Name})
	}
	return out
}

func flat(choices []acpwire.ConfigChoice) []acpwire.ConfigChoice {
	var out []acpwire.ConfigChoice
	for _, c := range choices {
		if c.Group != "" {
			out = append(out, flat(c.Options)...)
			continue
		}
		out = append(out, c)
	}
	return out
}

// option finds an option by its category, or by its id.
func option(options []acpwire.ConfigOption, category, id string) *acpwire.ConfigOption {
	for i := range options {
		if options[i].Category == category || options[i].ID == id {
			return &options[i]
		}
	}
	return nil
}

// makeItAsk sees to it that the agent asks before it acts: Copilot can be
// configured not to, and then there would be nothing to judge.
func (s *conversation) makeItAsk(ctx context.Context) error {
	s.mu.Lock()
	free := s.unasking()
	s.mu.Unlock()
	if free == "" {
		return nil
	}
	if free == "allow_all" {
		err := s.setOption(ctx, "allow_all", "off")
		if err == nil {
			return nil
		}
		s.link.opts.Logger.Warn("acp.allow_all_stays_on", "error", err)
	}
	return errUnasked(free)
}

// unasking says by what the agent would act without asking, or "". mu is held.
func (s *conversation) unasking() string {
	if o := option(s.options, "permissions", "allow_all"); o != nil && (o.Current == "on" || o.Current == true) {
		return o.ID
	}
	if s.modes != nil && short(s.modes.Current) == autopilot {
		return autopilot
	}
	if o := option(s.options, "mode", "mode"); o != nil {
		if text, ok := o.Current.(string); ok && short(text) == autopilot {
			return autopilot
		}
	}
	return ""
}

const (
	autopilot = bridge.ModeAutopilot
	modeAgent = "agent" // Copilot's name for interactive
)

// watchMode ends the turn if the agent has stopped asking. mu is held.
func (s *conversation) watchMode() {
	if s.turn == nil || s.loading {
		return
	}
	if by := s.unasking(); by != "" {
		s.wg.Go(func() { s.forbid(errUnasked(by)) })
	}
}

func errUnasked(by string) error {
	return &bridge.Error{Code: bridge.CodeDenied, Message: "with " + by + " the agent acts without asking, past the policy",
		Remedy: "leave it off; allow what you need in the policy file"}
}

// short is the last part of a mode's id, which may be a URL.
func short(id string) string {
	if i := strings.LastIndexAny(id, "#/"); i >= 0 {
		id = id[i+1:]
	}
	return strings.ToLower(id)
}

// setMode switches to the mode of a prompt, unless that is "". Names are the
// short ones of bridge.Prompt; ids are the agent's own.
func (s *conversation) setMode(ctx context.Context, name string) error {
	s.mu.Lock()
	modes, want := s.modes, s.baseMode // by which interactive is meant, where no mode is called so
	s.mu.Unlock()
	plain := name == bridge.ModeInteractive
	switch {
	case name == "" || plain && modes == nil:
		return nil
	case short(name) == autopilot:
		return errUnasked(autopilot)
	case modes == nil:
		return unsupported("switch to mode " + name)
	case plain:
		name = modeAgent
	}
	i := slices.IndexFunc(modes.Available, func(m acpwire.Mode) bool {
		return m.ID == name || short(m.ID) == strings.ToLower(name) || strings.EqualFold(m.Name, name)
	})
	switch {
	case i >= 0:
		want = modes.Available[i].ID
	case !plain:
		return unsupported("switch to mode " + name)
	}
	if want == modes.Current {
		return nil
	}
	err := s.link.call(ctx, acpwire.MethodSetMode, acpwire.SetModeRequest{SessionID: s.ID(), ModeID: want}, nil)
	if err != nil {
		return s.link.explain(err, "switch to mode "+short(want))
	}
	s.mu.Lock()
	s.modes.Current = want
	s.mu.Unlock()
	return nil
}

func (s *conversation) setOption(ctx context.Context, id, value string) error {
	var resp acpwire.SetConfigOptionResponse
	err := s.link.call(ctx, acpwire.MethodSetConfigOption, acpwire.SetConfigOptionRequest{SessionID: s.ID(), ConfigID: id, Value: value}, &resp)
	if err != nil {
		return err
	}
	if len(resp.ConfigOptions) > 0 {
		s.mu.Lock()
		s.options = resp.ConfigOptions
		s.mu.Unlock()
	}
	return nil
}

// SetModel switches the model, by the option for it or by the method that
// agents had before there were options.
func (s *conversation) SetModel(ctx context.Context, model, effort string) error {
	s.mu.Lock()
	byOption := option(s.options, "model", "model")
	level := option(s.options, "thought_level", "reasoning_effort")
	s.mu.Unlock()
	var err error
	if byOption != nil {
		err = s.setOption(ctx, byOption.ID, model)
	} else {
		err = s.link.call(ctx, acpwire.MethodSetModel, acpwire.SetModelRequest{SessionID: s.ID(), ModelID: model}, nil)
		if jsonrpc.CodeOf(err) == jsonrpc.CodeMethodNotFound {
			err = s.setOption(ctx, "model", model)
		}
	}
	if err != nil {
		err = s.link.explain(err, "switch the model to "+model)
		if e := bridge.AsError(err); e.Code == bridge.CodeInvalid {
			e.Code = bridge.CodeNotFound
		}
		return err
	}
	if effort == "" {
		return nil
	}
	if level == nil {
		return unsupported("set the reasoning effort")
	}
	return s.link.explain(s.setOption(ctx, level.ID, effort), "set the reasoning effort to "+effort)
}
