package app

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// Sidecar is the Agent Backplane's view of a bridge.
type Sidecar struct {
	base   Options // as the command gave them
	bridge *Bridge // nil if it did not start
	broken error
	clean  *redact.Redactor

	prepared sync.Once
}

// StartSidecar starts a bridge for one work order. It never fails: what is
// wrong is told to the host in its own protocol.
func StartSidecar(ctx context.Context, o Options) *Sidecar {
	s := &Sidecar{base: o, clean: redact.New(redact.Options{Secrets: o.Config.Secrets()})}
	s.bridge, s.broken = Start(ctx, o)
	return s
}

// BrokenSidecar is one that could not be configured.
func BrokenSidecar(o Options, err error) *Sidecar {
	return &Sidecar{base: o, broken: err, clean: redact.New(redact.Options{})}
}

// Bridge is what the sidecar stands on, or nil.
func (s *Sidecar) Bridge() *Bridge { return s.bridge }

// Close ends all that was started.
func (s *Sidecar) Close(ctx context.Context) error {
	if s.bridge == nil {
		return nil
	}
	return s.bridge.Close(ctx)
}

// Serve does one work order; see abp.Serve.
func (s *Sidecar) Serve(ctx context.Context, in io.Reader, out io.Writer, dir string) error {
	o := abp.Options{Dir: dir, MaxInline: 8192, Logger: s.base.Logger, Environ: task.PlainEnviron(s.base.Environ)}
	if s.base.Config != nil {
		o.MaxInline = s.base.Config.ABP.MaxInlineOutputBytes
	}
	if s.bridge != nil {
		o.Confine = s.bridge.confineGit()
	}
	return abp.Serve(ctx, s, in, out, o)
}

// Describe says who answers.
func (s *Sidecar) Describe() abp.Description {
	d := abp.Description{Version: s.base.Version, Broken: s.broken, Warnings: ModuleWarnings(s.base.Environ)}
	if s.bridge != nil {
		d.Runtime, d.Notice, d.Capabilities = s.bridge.Runtime.Version, s.bridge.Answers.Notice, s.bridge.Engine.Capabilities()
	}
	return d
}

// Prepare starts the runtime.
func (s *Sidecar) Prepare(ctx context.Context) {
	s.prepared.Do(func() {
		if _, err := s.bridge.Engine.Status(ctx); err != nil && ctx.Err() == nil {
			s.base.Logger.Info("runtime.prestart_failed", "error", err)
		}
	})
}

// Clean hides secrets.
func (s *Sidecar) Clean(text string) string {
	clean, _ := s.clean.String(text)
	return clean
}

// Open makes a session under the order's policy.
func (s *Sidecar) Open(ctx context.Context, o abp.Order) (abp.Session, error) {
	b, own := s.bridge, false
	if len(o.Env) > 0 {
		if err := guard.CheckEnviron(o.Env, s.base.Environ); err != nil {
			return nil, err
		}
		// The environment belongs to the runtime's process.
		opts := s.base
		opts.Environ = slices.Clone(opts.Environ)
		for _, name := range slices.Sorted(maps.Keys(o.Env)) {
			opts.Environ = append(opts.Environ, name+"="+o.Env[name])
		}
		var err error
		if b, err = Start(ctx, opts); err != nil {
			return nil, err
		}
		own = true
	}
	o.Title = firstLine(s.Clean(o.Title))
	out := &orderSession{}
	if own {
		out.bridge = b
	}
	if err := out.open(ctx, b, o); err != nil {
		return nil, errors.Join(err, out.Close(ctx))
	}
	return out, nil
}

// leastCredits is the smallest limit that the runtime accepts. The sidecar, which
// counts too, enforces smaller ones alone.
const leastCredits = 30

// orderSession is a session and, if it needed a separate one, its bridge.
type orderSession struct {
	*engine.Session
	gate    *guard.Guard
	bridge  *Bridge
	listing sync.WaitGroup
}

func (s *orderSession) open(ctx context.Context, b *Bridge, o abp.Order) error {
	layers, err := orderLayers(o)
	if err != nil {
		return err
	}
	g := Guarding{Workspace: o.Root, Door: "abp", Client: "Agent Backplane host", Asker: approval.Nobody{}, Defaults: policy.DefaultsABP(), Layers: layers,
		Source: "ABP work order", Protected: []string{".agent-backplane"}, Servers: slices.Sorted(maps.Keys(o.MCPServers)), Reason: policy.ABPReason,
		Whole: func(call bridge.ToolCall, result any) { o.Whole(call.Name, result) }}
	if err := b.permitServers(ctx, g, o.MCPServers); err != nil {
		return err
	}
	if s.gate, err = b.Gate(g); err != nil {
		return err
	}
	spec := b.Spec(bridge.ProfileAgent, o.Root)
	if o.Model != "" && b.Answers.Kind != bridge.AnswersDemo {
		spec.Model = o.Model
	}
	if o.Effort != "" {
		spec.ReasoningEffort = o.Effort
	}
	spec.System, spec.AvailableTools, spec.ExcludedTools, spec.MCPServers = o.System, o.AvailableTools, o.ExcludedTools, o.MCPServers
	spec.Gate, spec.Raw, spec.WorkOrder = s.gate, o.Raw, o.Text
	if b.Answers.Kind == bridge.AnswersGitHub {
		// Other providers do not bill in credits. Where credits are limited the
		// runtime tells the model so in a separate message.
		spec.MaxAICredits = max(o.MaxCredits, leastCredits)
		if o.MaxCredits <= 0 {
			spec.MaxAICredits = 0
		}
	}
	r := engine.Request{Spec: spec, Door: "abp", Client: g.Client, Title: o.Title}
	if o.Resume != "" {
		resume := b.Engine.Resume
		if o.Fork {
			resume = b.Engine.Fork
		}
		s.Session, err = resume(ctx, o.Resume, r)
		return err
	}
	r.Spec.ID = o.RunID
	if s.Session, err = b.Engine.Open(ctx, r); err != nil {
		return err
	}
	// The list is for a later order that resumes; this one need not wait for
	// the disk.
	entry := sessionstore.Entry{ID: s.ID(), Agent: b.Engine.Agent(), Profile: sessionstore.Profile(spec.Profile), WorkingDirectory: o.Root,
		Title: r.Title, Model: spec.Model, State: sessionstore.StateIdle, Turns: 1, Created: time.Now(), Updated: time.Now()}
	s.listing.Go(func() {
		if err := Store(b.opts.Config).Put(context.WithoutCancel(ctx), entry); err != nil {
			b.opts.Logger.Warn("sessions.not_recorded", "error", err)
		}
	})
	return nil
}

// orderLayers are the rules of a work order.
func orderLayers(o abp.Order) ([]policy.Layer, error) {
	p := o.Policy
	rules, err := policy.FromABP(policy.ABPPolicy{AllowedTools: p.AllowedTools, DisallowedTools: p.DisallowedTools,
		DenyRead: slices.Concat(p.DenyRead, o.Hidden), DenyWrite: slices.Concat(p.DenyWrite, o.Hidden),
		AllowNetwork: p.AllowNetwork, DenyNetwork: p.DenyNetwork, RequireApprovalFor: p.RequireApprovalFor})
	if err != nil {
		return nil, err
	}
	if o.ReadOnly {
		yes := true
		rules.ReadOnly, rules.ReadOnlySource = &yes, policy.Source{Name: "ABP work order, lane " + string(contract.PatchFirst)}
	}
	return []policy.Layer{{Rules: rules, Trusted: true}}, nil
}

func firstLine(s string) string {
	const most = 72
	for i, c := range s {
		if c == '\n' || i >= most {
			return s[:i]
		}
	}
	return s
}

// Unreadable asks the guard about a file.
func (s *orderSession) Unreadable(path string) string { return s.gate.Unreadable(path) }

// Close closes the session, and the bridge that only it used.
func (s *orderSession) Close(ctx context.Context) error {
	s.listing.Wait()
	var errs []error
	if s.Session != nil {
		errs = append(errs, s.Session.Close(ctx))
	}
	if s.bridge != nil {
		errs = append(errs, s.bridge.Close(ctx))
	}
	return errors.Join(errs...)
}
