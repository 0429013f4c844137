package coordinator

import (
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// The most that a worker is believed. What is beyond could not be added up, or
// would keep a task waiting for good.
const (
	maxCount      = 1 << 30
	maxTokens     = 1 << 45
	maxCost       = 1e9
	maxRetryAfter = time.Hour
	maxRemedy     = 1000
)

// credible is what a worker says that it has used, without what cannot be.
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

// bounded is a worker's error as it counts here. Its address is not for a person
// to open: nobody knows whose it is.
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
