package gateway

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// refusedError is a connection or a call that the gateway has refused.
type refusedError struct {
	err             *bridge.Error
	code            string // the gateway's own
	final           bool   // trying again cannot help
	retryWithDevice bool
	after           time.Duration // how long the gateway asks us to wait
}

func (e *refusedError) Error() string { return e.err.Error() }

func (e *refusedError) Unwrap() error { return e.err }

// hopeless are the reasons, besides those that begin with AUTH_ and DEVICE_,
// for which trying again cannot help.
var hopeless = []string{"PAIRING_REQUIRED", "PROTOCOL_MISMATCH", "CLIENT_VERSION_MISMATCH"}

// remedies say what to do about a refusal; the longest prefix counts.
var remedies = []struct{ prefix, remedy string }{
	{"AUTH_TOKEN_MI", "set OPENCLAW_GATEWAY_TOKEN to the gateway's token; `openclaw config get gateway.auth.token` shows it"},
	{"AUTH_", "check gateway.auth in OpenClaw's configuration and OPENCLAW_GATEWAY_TOKEN"},
	{"DEVICE_", "remove openclaw-device.json in the bridge's home and pair this machine again"},
	{"PAIRING_REQUIRED", "approve this machine: `openclaw devices list`, then `openclaw devices approve ID`"},
	{"PROTOCOL_MISMATCH", "use a version of OpenClaw that speaks gateway protocol 4, or update this program"},
}

// connectRefused makes an error of a gateway's answer to connect.
func connectRefused(r *refusal) error {
	e := refused(r)
	if e.after == 0 {
		e.final = strings.HasPrefix(e.code, "AUTH_") && e.code != "AUTH_RATE_LIMITED" || strings.HasPrefix(e.code, "DEVICE_") || slices.Contains(hopeless, e.code)
	}
	if e.final {
		e.err.Code, e.err.Message = bridge.CodeUnauthenticated, "OpenClaw's gateway refuses us: "+e.err.Message
	}
	return e
}

// refused makes an error of an answer.
func refused(r *refusal) *refusedError {
	if r == nil {
		r = &refusal{Code: "UNKNOWN", Message: "it gives no reason"}
	}
	var details struct {
		Code             string `json:"code"`
		CanRetry         bool   `json:"canRetryWithDeviceToken"`
		Next             string `json:"recommendedNextStep"`
		Retryable        bool   `json:"retryable"`
		RetryAfterMillis int64  `json:"retryAfterMs"`
	}
	_ = json.Unmarshal(r.Details, &details) // anything may be in there
	code := details.Code
	if code == "" {
		code = r.Code
	}
	e := &refusedError{err: &bridge.Error{Code: codes[r.Code], Message: text.Clip(oneLine(r.Message), 300)}, code: code,
		retryWithDevice: details.CanRetry || details.Next == "retry_with_device_token",
		after:           time.Duration(max(r.RetryAfterMs, details.RetryAfterMillis, 0)) * time.Millisecond}
	if e.err.Code == "" {
		e.err.Code = bridge.CodeUnavailable
	}
	if details.Next == "wait_then_retry" && details.Retryable && e.after == 0 {
		e.after = 5 * time.Second
	}
	e.err.RetryAfter = e.after
	for _, m := range remedies {
		if strings.HasPrefix(code, m.prefix) {
			e.err.Remedy = m.remedy
			break
		}
	}
	return e
}

// codes are the gateway's error codes as ours.
var codes = map[string]bridge.Code{
	"INVALID_REQUEST": bridge.CodeInvalid, "NOT_FOUND": bridge.CodeNotFound, "FORBIDDEN": bridge.CodeDenied,
	"UNAVAILABLE": bridge.CodeUnavailable, "TIMEOUT": bridge.CodeTimeout, "AGENT_TIMEOUT": bridge.CodeTimeout,
}

// lost words the end of a connection.
func lost(err error) error {
	var refused *refusedError
	if errors.As(err, &refused) {
		return err
	}
	e := &refusedError{err: &bridge.Error{Code: bridge.CodeUnavailable, Message: "the connection to OpenClaw's gateway was lost", Cause: err}}
	switch websocket.CloseStatus(err) {
	case websocket.StatusPolicyViolation: // credentials that are no longer good
		e.final, e.err.Code = true, bridge.CodeUnauthenticated
		e.err.Message, e.err.Remedy = "OpenClaw's gateway has closed the connection and does not want us back", remedies[1].remedy
	case websocket.StatusServiceRestart:
		e.err.Message = "OpenClaw's gateway is restarting"
	case websocket.StatusTryAgainLater:
		e.err.Message = "OpenClaw's gateway is not ready yet"
	default:
	}
	return e
}

// oneLine is what another program wrote on one line of valid UTF-8.
func oneLine(s string) string { return strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ") }
