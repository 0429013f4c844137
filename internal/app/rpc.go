package app

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/door/front"
	"github.com/copilot-bridge/copilot-bridge/internal/door/toolbus"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// ToolBus connects to the tool bus of a running bridge: the one at url or,
// without it, that which `serve` with this configuration would be. The asker,
// which may be nil, is asked for consent to what the calls would do. The caller
// must close the connection.
func ToolBus(ctx context.Context, c *config.Config, url string, asker approval.Asker) (*toolbus.Client, error) {
	candidates := []string{url}
	if url == "" {
		var err error
		if candidates, err = served(c); err != nil {
			return nil, err
		}
	}
	var last error
	for _, at := range candidates {
		client, err := toolbus.Dial(ctx, toolbus.Dialing{URL: at, Token: string(c.Serve.Token), Asker: asker})
		if err == nil {
			return client, nil
		}
		last = err
		// One that answers, if only to refuse, is the one that is meant.
		if e := bridge.AsError(err); e.Code != bridge.CodeUnavailable || e.Status != 0 {
			break
		}
	}
	return nil, last
}

// served lists where `serve` may be listening: on the port that is set or, if
// none is, on the free one that it picked last or the usual one.
func served(c *config.Config) ([]string, error) {
	var ports []int
	if c.Serve.Port == 0 || c.Origin("serve.port").Source == config.SourceDefault {
		remembered, err := (&front.Ports{File: c.Path("state.json"), Name: "serve"}).Load()
		if err != nil {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the port that `serve` picked is not known", Cause: err, Remedy: "say where it listens with --url"}
		}
		ports = append(ports, remembered)
	}
	ports = slices.DeleteFunc(append(ports, c.Serve.Port), func(port int) bool { return port == 0 })
	if len(ports) == 0 {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "no tool bus is known to be running", Remedy: "start one with `copilot-bridge serve`, or say where it is with --url"}
	}
	host := c.Serve.Addr
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = map[bool]string{true: "127.0.0.1", false: "::1"}[ip.Is4()]
	}
	var urls []string
	for _, port := range slices.Compact(ports) {
		urls = append(urls, "http://"+net.JoinHostPort(host, strconv.Itoa(port)))
	}
	return urls, nil
}

// ToolBusMethods lists what a tool bus may be asked, by name, with a summary
// each.
func ToolBusMethods() [][2]string { return toolbus.Methods() }
