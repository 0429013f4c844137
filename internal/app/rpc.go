package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/toolbus"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
)

// Address says which running bridge is meant.
type Address struct {
	URL    string // where it listens, or
	Window int    // the process of one in an editor's window, or
	Dir    string // that in whose window this directory is open, if there is one
}

// window finds the editor's window that is meant, if one is.
func (a Address) window(ctx context.Context, c *config.Config) (editor.Window, bool, error) {
	windows, err := Windows(ctx, c)
	if a.Window == 0 {
		w, ok := editor.WindowAt(windows, a.Dir)
		return w, ok && err == nil, nil // without the list there is still `serve`
	}
	for _, w := range windows {
		if w.PID == a.Window {
			return w, true, nil
		}
	}
	return editor.Window{}, false, &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("no bridge with the process id %d runs in an editor", a.Window), Cause: err,
		Remedy: "`copilot-bridge validate` lists those that do"}
}

// Windows are the editors' windows in which a bridge runs.
func Windows(ctx context.Context, c *config.Config) ([]editor.Window, error) {
	return editor.Windows(ctx, c.Path("windows"))
}

// ToolBus connects to the tool bus of a running bridge: the one that is named;
// else the one in whose window the directory is open; else that which `serve`
// with this configuration would be. The asker,
// which may be nil, is asked for consent to what the calls would do. The caller
// must close the connection.
func ToolBus(ctx context.Context, c *config.Config, at Address, asker approval.Asker) (*toolbus.Client, error) {
	c, err := WithToken(ctx, c)
	if err != nil {
		return nil, err
	}
	candidates, token := []string{at.URL}, string(c.Serve.Token)
	if at.URL == "" {
		w, found, err := at.window(ctx, c)
		switch {
		case err != nil:
			return nil, err
		case found:
			candidates, token = []string{w.RPC}, w.Token
		default:
			if candidates, err = served(c); err != nil {
				return nil, err
			}
		}
	}
	var last error
	for _, candidate := range candidates {
		client, err := toolbus.Dial(ctx, toolbus.Dialing{URL: candidate, Token: token, Asker: asker})
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
		remembered, err := (&httpserver.Ports{File: c.Path("state.json"), Name: "serve"}).Load()
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
