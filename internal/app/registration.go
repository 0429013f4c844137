package app

import (
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/registration"
)

// Registrar registers the bridge with the OpenClaw that a configuration means.
// progress hears what takes long.
func Registrar(o Options, progress func(string)) *registration.Registrar {
	c := o.Config
	opts := registration.Options{Home: c.Home, Executable: o.Self, Places: places(o), Environ: o.Environ, Token: string(c.OpenClaw.GatewayToken), Progress: progress}
	if c.Origin("openclaw.port").Source != config.SourceDefault {
		opts.Port = c.OpenClaw.Port
	}
	return registration.New(opts)
}

// OpenClawState is the directory in which that OpenClaw keeps its things.
func OpenClawState(o Options) string { return places(o).State }
