// Package contract is the Agent Backplane's contract abp/v0.1 as bytes: how
// envelopes, work orders, events and receipts are read and written, and the
// canonical form of a receipt with its hash. The other side recomputes the hash,
// so everything follows serde_json with ABP's types. One codec handles all types,
// which are structs with `abp` tags. It runs nothing and touches no file; package
// abp and the commands that check receipts use it.
package contract

import (
	"fmt"
	"reflect"
)

// Version is the contract that is spoken.
const Version = "abp/v0.1"

// MaxLine is the longest line that the protocol knows.
const MaxLine = 16 << 20

// Envelope is one line of the protocol: *Hello, *Run, *Happened, *Final or
// *Fatal, and from a host *Cancel or *Ping, which are answered by *Pong.
type Envelope interface {
	// tag is the value of the member t.
	tag() string
}

// The envelopes.
type (
	// Hello is the first line of a sidecar.
	Hello struct {
		ContractVersion string   `abp:"contract_version"`
		Backend         Backend  `abp:"backend"`
		Capabilities    Manifest `abp:"capabilities"`
		Mode            Mode     `abp:"mode,optional=mapped"`
	}
	// Run asks for a run.
	Run struct {
		ID        string    `abp:"id"`
		WorkOrder WorkOrder `abp:"work_order"`
	}
	// Happened carries an event of a run.
	Happened struct {
		RefID string `abp:"ref_id"`
		Event Event  `abp:"event"`
	}
	// Final ends a run with its receipt.
	Final struct {
		RefID   string  `abp:"ref_id"`
		Receipt Receipt `abp:"receipt"`
	}
	// Fatal ends one that has none.
	Fatal struct {
		RefID *string    `abp:"ref_id"`
		Error string     `abp:"error"`
		Code  *ErrorCode `abp:"error_code,omit"`
	}
	// Cancel asks to end a run.
	Cancel struct {
		RefID  string  `abp:"ref_id"`
		Reason *string `abp:"reason"`
	}
	// Ping asks for a sign of life.
	Ping struct {
		Seq uint64 `abp:"seq"`
	}
	// Pong is one.
	Pong struct {
		Seq uint64 `abp:"seq"`
	}
)

func (*Hello) tag() string    { return "hello" }
func (*Run) tag() string      { return "run" }
func (*Happened) tag() string { return "event" }
func (*Final) tag() string    { return "final" }
func (*Fatal) tag() string    { return "fatal" }
func (*Cancel) tag() string   { return "cancel" }
func (*Ping) tag() string     { return "ping" }
func (*Pong) tag() string     { return "pong" }

// ParseEnvelope reads a line as strictly as ABP does.
func ParseEnvelope(line []byte) (Envelope, error) {
	return reader{}.envelope(line, &Hello{}, &Run{}, &Happened{}, &Final{}, &Fatal{})
}

// ParseHostLine reads a line from a host: absent parts of a work order are
// empty, and cancel and ping are understood as well.
func ParseHostLine(line []byte) (Envelope, error) {
	return reader{lenient: true}.envelope(line, &Hello{}, &Run{}, &Happened{}, &Final{}, &Fatal{}, &Cancel{}, &Ping{})
}

// envelope reads a line into the candidate whose tag it has.
func (r reader) envelope(line []byte, candidates ...Envelope) (Envelope, error) {
	// The kind may come last, so all of it must be sound.
	v, err := ParseValue(line)
	if err != nil {
		return nil, err
	}
	o, ok := v.(Object)
	if !ok {
		return nil, unexpected(v, "internally tagged enum Envelope")
	}
	var tags []any
	for _, m := range o {
		if m.Key == "t" {
			tags = append(tags, m.Value)
		}
	}
	if len(tags) != 1 {
		return nil, fmt.Errorf("missing or duplicate field `t`")
	}
	t, ok := tags[0].(string)
	if !ok {
		return nil, unexpected(tags[0], "variant identifier")
	}
	var known []string
	for _, e := range candidates {
		if e.tag() == t {
			if err := r.read(v, reflect.ValueOf(e).Elem()); err != nil {
				return nil, err
			}
			return e, nil
		}
		known = append(known, e.tag())
	}
	return nil, unknown(t, known)
}

// AppendEnvelope writes a line, without its end.
func AppendEnvelope(to []byte, e Envelope) []byte {
	to = AppendString(append(to, `{"t":`...), e.tag())
	return append(appendFields(to, reflect.ValueOf(e).Elem(), false), '}')
}

// ErrorCode is what a program can tell errors apart by.
type ErrorCode string

// The codes that the bridge uses; ABP has more.
const (
	CodeInvalidEnvelope    ErrorCode = "protocol_invalid_envelope"
	CodeUnexpectedMessage  ErrorCode = "protocol_unexpected_message"
	CodeBackendUnavailable ErrorCode = "backend_unavailable"
	CodeBackendTimeout     ErrorCode = "backend_timeout"
	CodeBackendRateLimited ErrorCode = "backend_rate_limited"
	CodeBackendAuthFailed  ErrorCode = "backend_auth_failed"
	CodeModelNotFound      ErrorCode = "backend_model_not_found"
	CodeBackendCrashed     ErrorCode = "backend_crashed"
	CodeWorkspaceError     ErrorCode = "execution_workspace_error"
	CodePermissionDenied   ErrorCode = "execution_permission_denied"
	CodeSchemaViolation    ErrorCode = "contract_schema_violation"
	CodeCapability         ErrorCode = "capability_unsupported"
	CodePolicyInvalid      ErrorCode = "policy_invalid"
	CodePolicyDenied       ErrorCode = "policy_denied"
	CodeValidation         ErrorCode = "validation_failed"
	CodeInternal           ErrorCode = "internal"
)

var errorCodes = []string{
	string(CodeInvalidEnvelope), "protocol_handshake_failed", "protocol_missing_ref_id", string(CodeUnexpectedMessage), "protocol_version_mismatch",
	"mapping_unsupported_capability", "mapping_dialect_mismatch", "mapping_lossy_conversion", "mapping_unmappable_tool",
	"backend_not_found", string(CodeBackendUnavailable), string(CodeBackendTimeout), string(CodeBackendRateLimited), string(CodeBackendAuthFailed), string(CodeModelNotFound),
	string(CodeBackendCrashed), "execution_tool_failed", string(CodeWorkspaceError), string(CodePermissionDenied), "contract_version_mismatch",
	string(CodeSchemaViolation), "contract_invalid_receipt", string(CodeCapability), "capability_emulation_failed", string(CodePolicyDenied), string(CodePolicyInvalid),
	"workspace_init_failed", "workspace_staging_failed", "ir_lowering_failed", "ir_invalid", "receipt_hash_mismatch", "receipt_chain_broken",
	"dialect_unknown", "dialect_mapping_failed", "config_invalid", "rate_limit_exceeded", "circuit_breaker_open", "stream_closed",
	"receipt_store_failed", string(CodeValidation), "sidecar_spawn_failed", "backend_content_filtered", "backend_context_length", string(CodeInternal),
}

func (ErrorCode) values() []string { return errorCodes }
