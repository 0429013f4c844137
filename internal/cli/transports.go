package cli

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// modules warns of settings that have no effect here.
func (v *validation) modules() {
	for _, w := range app.ModuleWarnings(v.p.env.Environ) {
		v.warn("modules", w, "")
	}
}

// transport checks what the configured way to Copilot needs, and says whether
// it can be tried. Nothing is installed.
func (v *validation) transport(ctx context.Context, cfg *config.Config) bool {
	switch cfg.ABP.Transport {
	case config.TransportACP:
		if cfg.ABP.ACPURL != "" || cfg.ABP.Cmd != "" {
			return true // whether it is there shows when it is started
		}
		rt, err := copilotruntime.FindCLI(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath})
		v.npm(err == nil)
		if err != nil {
			v.fail("cli", err, exitUnavailable)
			return false
		}
		v.ok("cli", "%s %s, from %s", rt.Path, rt.Version, rt.Source)
		return true
	case config.TransportLegacy:
		if cfg.ABP.Runner == "" && cfg.ABP.Cmd == "" {
			v.warn("runner", "no runner is configured: turns will only say so", "name one with ABP_COPILOT_RUNNER")
		}
		return true
	case config.TransportSDK, config.TransportAuto:
	}
	return v.runtime(ctx, cfg)
}

// elsewhere says whether another way to Copilot may do where the runtime is
// not there.
func (v *validation) elsewhere(ctx context.Context, cfg *config.Config) bool {
	c := cfg.ABP
	if c.Transport != config.TransportAuto {
		return false
	}
	if c.ACPURL != "" || c.Cmd != "" || c.Runner != "" {
		return true
	}
	_, err := copilotruntime.FindCLI(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath})
	return err == nil
}

// transports says which way is in use, and why others were passed over.
func (v *validation) transports(b *app.Bridge, cfg *config.Config) {
	for _, t := range b.Transports() {
		switch {
		case t.InUse:
			v.ok("transport", "%s is in use (ABP_COPILOT_TRANSPORT is %s)", t.Name, cfg.ABP.Transport)
		case t.Failed != nil:
			v.warn("transport", t.Name+" was passed over: "+t.Failed.Error(), bridge.AsError(t.Failed).Remedy)
		}
	}
}

// whatRuns names what was started, for people.
func whatRuns(s bridge.AgentStatus) string {
	if s.Agent == "acp" {
		return "the ACP agent " + s.RuntimeVersion
	}
	return "the runtime"
}
