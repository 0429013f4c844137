package bridge

import "context"

type detailKey struct{}

// WithDetail gives a tool call a text that a person who is asked about it may
// want to see first, such as the diff that it applies. It is no part of the
// call: no rule judges it.
func WithDetail(ctx context.Context, text string) context.Context {
	return context.WithValue(ctx, detailKey{}, text)
}

// DetailOf returns what WithDetail gave, or "".
func DetailOf(ctx context.Context) string {
	text, _ := ctx.Value(detailKey{}).(string)
	return text
}
