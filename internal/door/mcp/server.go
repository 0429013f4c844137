package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// versions are the revisions of the protocol that are spoken. The next one has
// no requests from server to client, and so nobody who could be asked while a
// task runs; clients that know it know one of these too.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Server is a set of tools, ready for clients. Its methods may be called
// concurrently.
type Server struct {
	mcp  *sdk.Server
	opts Options
	// graded gives errors details as OpenClaw wants them.
	graded bool
	live   context.Context // ends with the server, and all calls with it
	end    context.CancelCauseFunc

	mu      sync.Mutex
	running sync.WaitGroup
	closed  bool
}

// newServer makes a server without tools. experimental are capabilities of our
// own, by name.
func newServer(name, title, instructions string, opts Options, experimental map[string]any) *Server {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Enter == nil {
		opts.Enter = func(int) error { return nil }
	}
	if opts.Depth == nil {
		opts.Depth = func() int { return 0 }
	}
	if opts.MaxWaiting <= 0 {
		opts.MaxWaiting = 32
	}
	if opts.Notice != "" {
		instructions += "\n\n" + opts.Notice
	}
	s := &Server{opts: opts}
	s.live, s.end = context.WithCancelCause(context.Background())
	s.mcp = sdk.NewServer(&sdk.Implementation{Name: name, Title: title, Version: opts.Version}, &sdk.ServerOptions{
		Instructions: instructions, Logger: quieter(opts.Logger), SupportedProtocolVersions: versions,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Experimental: experimental},
	})
	s.mcp.AddReceivingMiddleware(s.coded)
	return s
}

// quieter is a logger for the SDK, to which much is worth a line that is
// nothing special here.
func quieter(l *slog.Logger) *slog.Logger {
	if !l.Enabled(context.Background(), slog.LevelDebug) {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// Serve answers one client on a pair of streams until it hangs up or ctx ends,
// and returns when all of its calls have. Hanging up is the ordinary end.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	err := s.mcp.Run(ctx, &sdk.IOTransport{Reader: reader{in}, Writer: writer{out}})
	s.Close()
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		return fmt.Errorf("the client's connection broke: %w", err)
	}
	return nil
}

// Close ends all calls and sessions, and waits for the calls.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(&bridge.Error{Code: bridge.CodeUnavailable, Message: "the bridge is shutting down"})
	s.running.Wait()
	for session := range s.mcp.Sessions() {
		if err := session.Close(); err != nil {
			s.opts.Logger.Debug("closing a client's session", "error", err)
		}
	}
}

// The streams are the process's: closing them is its own business, and a read
// that waits on them ends with the process.
type reader struct{ io.Reader }

func (reader) Close() error { return nil }

type writer struct{ io.Writer }

func (writer) Close() error { return nil }

// enter begins a call: it checks the depth and ties the call to the server's
// life.
func (s *Server) enter(ctx context.Context, depth int) (context.Context, func(), error) {
	if err := s.opts.Enter(depth); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, context.Cause(s.live)
	}
	s.running.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.live, func() { cancel(context.Cause(s.live)) })
	return ctx, func() {
		unhook()
		cancel(nil)
		s.running.Done()
	}, nil
}

// tool describes a tool.
type tool struct {
	name, title, about string
	readOnly           bool
	destructive        bool
	openWorld          bool
	// limits are further bounds of arguments, by name.
	limits map[string]func(*jsonschema.Schema)
}

// schemaOf is the schema of a tool's arguments.
func schemaOf[In any](t tool) *jsonschema.Schema {
	schema := shapeOf[In]()
	schema.Properties["_depth"].Minimum = jsonschema.Ptr(0.0)
	for name, limit := range t.limits {
		limit(schema.Properties[name])
	}
	return schema
}

// add adds a tool. depth reads the depth from its arguments.
func add[In, Out any](s *Server, t tool, depth func(In) int, do func(context.Context, *sdk.CallToolRequest, In) (*sdk.CallToolResult, Out, error)) {
	sdk.AddTool(s.mcp, &sdk.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: schemaOf[In](t), OutputSchema: shapeOf[Out](),
		Annotations: &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: t.readOnly, IdempotentHint: t.readOnly,
			DestructiveHint: &t.destructive, OpenWorldHint: &t.openWorld}},
		func(ctx context.Context, req *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
			var none Out
			ctx, leave, err := s.enter(ctx, depth(in))
			if err != nil {
				return nil, none, err
			}
			defer leave()
			res, out, err := do(ctx, req, in)
			if err == nil {
				return res, withLists(out), nil
			}
			if ctx.Err() != nil {
				err = context.Cause(ctx) // why it was ended, rather than how it took it
			}
			return nil, none, bridge.AsError(err) // which coded takes for the tool's own
		})
}

// errorKey is where an error's code is in a result: the text is for models and
// people, and the structured content has the tool's own schema.
const errorKey = "copilot-bridge/error"

// coded adds codes and remedies to the errors of tools.
func (s *Server) coded(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		called, ok := res.(*sdk.CallToolResult)
		if err != nil || !ok || called == nil || !called.IsError {
			return res, err
		}
		fault := called.GetError()
		e := bridge.AsError(fault)
		var own *bridge.Error
		switch {
		case fault == nil:
			e = &bridge.Error{Code: bridge.CodeInternal}
		case !errors.As(fault, &own):
			e = &bridge.Error{Code: bridge.CodeInvalid, Message: fault.Error()} // the SDK's, of the arguments
		}
		text := fmt.Sprintf("[%s] %s", e.Code, e.Error())
		if e.Remedy != "" {
			text += "\nWhat to do: " + e.Remedy
		}
		called.Content = []sdk.Content{&sdk.TextContent{Text: text}}
		detail := map[string]any{"code": string(e.Code), "message": e.Error()}
		if e.Remedy != "" {
			detail["remedy"] = e.Remedy
		}
		if e.RetryAfter > 0 {
			detail["retryAfterMs"] = e.RetryAfter.Milliseconds()
		}
		if called.Meta == nil {
			called.Meta = sdk.Meta{}
		}
		called.Meta[errorKey] = detail
		if s.graded {
			called.StructuredContent = refused(e)
		}
		return called, nil
	}
}
