package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/mcp"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// MCPServing says what an MCP server offers, and where.
type MCPServing struct {
	Workspace string
	// HTTP is the address to listen on; "" for the process's own streams.
	HTTP string
	// ReadWrite lets clients over HTTP write in the workspace without being
	// asked. Those on stdio always may: they have started us.
	ReadWrite bool
}

// MCP is an MCP server that is ready to serve.
type MCP struct {
	bridge  *Bridge // not started
	serving MCPServing
	name    string
	server  *mcp.Server
	close   func(context.Context) error
}

// prepareMCP is prepare for servers whose calls are refused one by one if they
// are too deep, so that a client sees why.
func prepareMCP(o Options) *Bridge { return &Bridge{opts: o, depth: guard.DepthOf(o.Environ)} }

// enter says whether a call at this depth is allowed: as deep as its arguments
// say, or as the environment of this process does.
func (b *Bridge) enter(depth int) error { return guard.CheckDepth(max(depth, b.depth)) }

// callerDepth is how deep a call to this process is by what the system shows of
// those who may have made it. OpenClaw's gateway does not pass its callers'
// environment on to its servers, so their depth is not in ours.
func (b *Bridge) callerDepth() int {
	depth := b.depth
	for _, v := range supervise.Callers(guard.DepthVariable, readsMemory) {
		depth = max(depth, guard.DepthOf([]string{guard.DepthVariable + "=" + v}))
	}
	return depth
}

// readsMemory recognizes the memory servers of sessions, which are connected to
// the gateway and call no agent.
func readsMemory(args []string) bool {
	return len(args) > 2 && slices.Equal(args[1:3], []string{"mcp", "openclaw"})
}

// PluginTools are the tools of OpenClaw's plugin, as it registers them.
func PluginTools() ([]byte, error) { return mcp.PluginTools() }

// Stdio serves one client on two streams until it hangs up or ctx ends.
func (m *MCP) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return errors.Join(m.server.Serve(ctx, in, out), m.end(ctx))
}

// HTTP serves clients over HTTP until ctx ends, with the safety of `serve`.
// ready is called with the URL when requests are answered.
func (m *MCP) HTTP(ctx context.Context, ready func(url string)) error {
	host, port, err := address(m.serving.HTTP)
	if err != nil {
		return errors.Join(err, m.end(ctx))
	}
	b, c := m.bridge, m.bridge.opts.Config
	b.tracer = b.newTracer()
	h := m.server.Handler()
	s, err := httpserver.Listen(ctx, httpserver.Options{
		Addr: host, Port: port, Token: string(c.Serve.Token), Hosts: c.Serve.Hosts, Ports: &httpserver.Ports{File: c.Path("state.json"), Name: "mcp-" + m.name},
		Doors: map[string]http.Handler{"POST /mcp": h, "GET /mcp": h, "DELETE /mcp": h},
		About: func() httpserver.About {
			return httpserver.About{Version: b.opts.Version, Answers: "MCP server " + m.name + " at /mcp", Workspace: m.serving.Workspace, ReadOnly: !m.serving.ReadWrite}
		},
		DrainTimeout: c.Serve.DrainTimeout, Tracer: b.tracer, Logger: b.opts.Logger,
	})
	if err != nil {
		return errors.Join(err, m.end(ctx))
	}
	ready(s.URL() + "/mcp")
	// Calls end first: the front waits for their answers.
	stop := context.AfterFunc(ctx, func() { m.server.Drain(c.Serve.DrainTimeout) })
	err = s.Serve(ctx)
	stop()
	return errors.Join(err, m.end(ctx))
}

// end takes down what the tools stand on.
func (m *MCP) end(ctx context.Context) error {
	m.server.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	return errors.Join(m.close(ctx), m.bridge.Close(ctx))
}

// address reads HOST:PORT, :PORT or PORT; the host is this machine's own
// unless it is named.
func address(s string) (host string, port int, err error) {
	wrong := &bridge.Error{Code: bridge.CodeInvalid, Message: "--http=" + s + " is not an address", Remedy: "write HOST:PORT or PORT, such as 127.0.0.1:8799"}
	if !strings.Contains(s, ":") {
		s = ":" + s
	}
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, wrong
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, wrong
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, port, nil
}
