package bridge

import "context"

type waitingKey struct{}

// WithWaiting lets a gate tell that it waits for a person: begin is called
// with the request, and the function that it returns with the decision. Agents
// set it for the questions that would otherwise be invisible to those who
// watches the turn.
func WithWaiting(ctx context.Context, begin func(PermissionRequest) (end func(Decision))) context.Context {
	return context.WithValue(ctx, waitingKey{}, begin)
}

// Waiting says that a person is asked now; the caller calls end afterwards.
func Waiting(ctx context.Context, r PermissionRequest) (end func(Decision)) {
	if begin, ok := ctx.Value(waitingKey{}).(func(PermissionRequest) func(Decision)); ok {
		return begin(r)
	}
	return func(Decision) {}
}
