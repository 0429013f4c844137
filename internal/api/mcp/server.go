package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// versions are the supported revisions of the protocol. The next one has no
// requests from server to client, so a running task could not ask for consent.
// Clients that know it know one of these too.
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
	calls  atomic.Int64 // to number them

	mu      sync.Mutex
	running sync.WaitGroup // calls, and messages over HTTP; Add under mu, while not closed
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
	conn := newStdio(in, out, s.opts.Logger)
	err := s.mcp.Run(ctx, conn)
	s.Close()
	<-conn.done
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		return fmt.Errorf("the client's connection broke: %w", err)
	}
	return nil
}

// Drain lets no further calls begin, waits for the others as long as limit, and
// closes the server.
func (s *Server) Drain(limit time.Duration) {
	s.refuse()
	late := time.AfterFunc(limit, func() { s.end(errStopping) })
	s.running.Wait()
	late.Stop()
	s.Close()
}

var errStopping = &bridge.Error{Code: bridge.CodeUnavailable, Message: "the bridge is shutting down"}

func (s *Server) refuse() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

// Close ends all calls and sessions, and waits for the calls.
func (s *Server) Close() {
	s.refuse()
	s.end(errStopping)
	s.running.Wait()
	for session := range s.mcp.Sessions() {
		if err := session.Close(); err != nil {
			s.opts.Logger.Debug("closing a client's session", "error", err)
		}
	}
}

// within runs a call: it checks the depth, ties the call to the server's life,
// and says who calls. An error of a call that was ended is why that was, rather
// than how the tool took it.
func (s *Server) within(ctx context.Context, req *sdk.CallToolRequest, depth int, do func(context.Context) error) error {
	if err := s.opts.Enter(depth); err != nil {
		return err
	}
	if !s.count() {
		return errStopping
	}
	defer s.running.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.live, func() { cancel(context.Cause(s.live)) })()
	ctx = bridge.WithCaller(ctx, s.callerOf(req))
	err := do(context.WithValue(ctx, clientKey{}, &client{ctx: ctx, req: req, may: s.opts.Consent}))
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return bridge.AsError(err) // which coded takes for the tool's own
	}
	return nil
}

// callerOf is who makes a call, as the record names it. The id of a session over
// HTTP lets everybody use it who knows it, so the record has its hash.
func (s *Server) callerOf(req *sdk.CallToolRequest) bridge.Caller {
	c := bridge.Caller{Request: fmt.Sprintf("call-%d", s.calls.Add(1)), Connection: "stdio"}
	if p := req.Session.InitializeParams(); p != nil && p.ClientInfo != nil {
		c.Name = strings.TrimSpace(p.ClientInfo.Name + " " + p.ClientInfo.Version)
	}
	if id := req.Session.ID(); id != "" {
		sum := sha256.Sum256([]byte(id))
		c.Connection = "mcp-" + hex.EncodeToString(sum[:6])
	}
	return c
}

// count adds to what runs, unless the server is about to end. The caller must
// call running.Done.
func (s *Server) count() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}

// tool describes a tool.
type tool struct {
	name, title, about string
	readOnly           bool
	destructive        bool
	openWorld          bool
	bounds             map[string]bounds // of arguments, by name
}

// bounds are those of a number, or of the length of a text, where 0 is none.
type bounds struct {
	least, most int
	otherwise   string // the default as JSON, or ""
}

func (b bounds) apply(p *jsonschema.Schema) {
	if p.Type == "string" {
		p.MinLength = &b.least
		if b.most > 0 {
			p.MaxLength = &b.most
		}
		return
	}
	p.Minimum, p.Maximum = jsonschema.Ptr(float64(b.least)), jsonschema.Ptr(float64(b.most))
	if b.otherwise != "" {
		p.Default = json.RawMessage(b.otherwise)
	}
}

// nested is part of the arguments of every tool.
type nested struct {
	Depth int `json:"_depth,omitempty" jsonschema:"how many bridges the call has come through; leave it out unless you were told a number"`
}

func (n nested) depth() int { return n.Depth }

// schemaOf is the schema of a tool's arguments.
func schemaOf[In any](t tool) *jsonschema.Schema {
	schema := shapeOf[In]()
	schema.Properties["_depth"].Minimum = jsonschema.Ptr(0.0)
	for name, b := range t.bounds {
		b.apply(schema.Properties[name])
	}
	return schema
}

// annotations are hints for clients, who may ask a person by them.
func annotations(title string, readOnly, destructive, openWorld bool) *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{Title: title, ReadOnlyHint: readOnly, IdempotentHint: readOnly, DestructiveHint: &destructive, OpenWorldHint: &openWorld}
}

// add adds a tool. do returns its result as text for people and as data;
// without a text the data is shown.
func add[In interface{ depth() int }, Out any](s *Server, t tool, do func(context.Context, In) (string, Out, error)) {
	sdk.AddTool(s.mcp, &sdk.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: schemaOf[In](t), OutputSchema: shapeOf[Out](),
		Annotations: annotations(t.title, t.readOnly, t.destructive, t.openWorld)},
		func(ctx context.Context, req *sdk.CallToolRequest, in In) (res *sdk.CallToolResult, out Out, err error) {
			err = s.within(ctx, req, in.depth(), func(ctx context.Context) error {
				text, result, err := do(ctx, in)
				if err != nil {
					return err
				}
				if out = withLists(result); text != "" {
					res = &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
				}
				return nil
			})
			return res, out, err
		})
}

// withoutText is for tools whose result is data alone.
func withoutText[In, Out any](do func(context.Context, In) (Out, error)) func(context.Context, In) (string, Out, error) {
	return func(ctx context.Context, in In) (string, Out, error) {
		out, err := do(ctx, in)
		return "", out, err
	}
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
