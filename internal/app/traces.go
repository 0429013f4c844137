package app

import (
	"context"
	"slices"
	"strconv"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
)

// newTracer returns nil where no traces are wanted.
func (b *Bridge) newTracer() *traces.Tracer {
	o := traces.Options{Environ: b.opts.Environ, Version: b.opts.Version, Logger: b.opts.Logger}
	if b.wantsRuntimeSpans() {
		o.Endpoint = b.opts.Config.Telemetry.OTLPEndpoint
	}
	return traces.New(o)
}

// wantsRuntimeSpans says whether the runtime's own spans belong to the traces.
func (b *Bridge) wantsRuntimeSpans() bool {
	return b.opts.Config.Telemetry.ExporterType == config.ExporterOTLP
}

func (b *Bridge) startTraces(ctx context.Context) {
	if b.tracer = b.newTracer(); b.tracer == nil || !b.wantsRuntimeSpans() {
		return
	}
	var err error
	if b.relay, err = b.tracer.Relay(ctx); err != nil {
		b.opts.Logger.Warn("traces.no_relay: the runtime's own spans are left out", "error", err)
	}
}

// relayTraces has the runtime send its spans to the relay. Without traces it sends
// none.
func (b *Bridge) relayTraces(o *sdk.Options) {
	if o.Telemetry == nil || !b.wantsRuntimeSpans() {
		return
	}
	if b.relay == nil {
		o.Telemetry = nil
		return
	}
	o.Telemetry.OTLPEndpoint, o.Telemetry.Parent = b.relay.URL(), b.relay.Parent
	o.Env = append(slices.Clone(o.Env), "OTEL_BSP_SCHEDULE_DELAY="+strconv.FormatInt(traces.RelayEvery.Milliseconds(), 10))
}

// closeTraces sends what is left of the traces, within bounds.
func (b *Bridge) closeTraces(ctx context.Context) {
	b.relay.Close()
	b.tracer.Close(ctx)
}
