package bridge

import "context"

type callerKey struct{}

// Caller says on whose behalf something is done, for the record. It holds what
// a client says of itself and numbers of the bridge's own, no credentials.
type Caller struct {
	Name       string // of the program: a User-Agent, or the client that initialize names
	Connection string // which of its connections, if it keeps one
	Request    string // which of its requests
}

// WithCaller returns a context that carries the caller, for the audit log.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns what WithCaller gave, or nothing.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
