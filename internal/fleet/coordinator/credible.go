package coordinator

import (
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Bounds of what a worker says of itself. Larger figures could not be added up, and
// a longer pause would keep a task waiting for good.
const (
	maxCount      = 1 << 30
	maxTokens     = 1 << 45
	maxCost       = 1e9
	maxRetryAfter = time.Hour
	maxRemedy     = 1000
)

// credible keeps what a worker says that it has used within the bounds.
func credible(u bridge.Usage) bridge.Usage {
	u.Model = text.FirstLine(u.Model, maxProgress)
	u.Calls = min(max(u.Calls, 0), maxCount)
	for _, tokens := range []*int64{&u.InputTokens, &u.OutputTokens, &u.ReasoningTokens, &u.CacheRead, &u.CacheWrite} {
		*tokens = min(max(*tokens, 0), maxTokens)
	}
	for _, cost := range []*float64{&u.Cost, &u.Premium, &u.Credits} {
		*cost = min(max(*cost, 0), maxCost)
	}
	return u
}

// bounded keeps a worker's error within the bounds, without the web address that it
// may hold: a stolen worker could send people anywhere.
func bounded(e *bridge.Error) *bridge.Error {
	out := &bridge.Error{Code: e.Code, Message: text.Clip(e.Error(), maxSummary), Remedy: text.Clip(e.Remedy, maxRemedy), Status: e.Status,
		RetryAfter: min(max(e.RetryAfter, 0), maxRetryAfter)}
	if fleet.Token(string(e.Code)) != string(e.Code) || e.Code == bridge.CodeCanceled {
		out.Code = bridge.CodeInternal
	}
	if e.Detail != nil {
		detail := *e.Detail
		detail.URL = ""
		out.Detail = &detail
	}
	return out
}
