package contract

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

var errorCodes = []ErrorCode{
	CodeInvalidEnvelope, "protocol_handshake_failed", "protocol_missing_ref_id", CodeUnexpectedMessage, "protocol_version_mismatch",
	"mapping_unsupported_capability", "mapping_dialect_mismatch", "mapping_lossy_conversion", "mapping_unmappable_tool",
	"backend_not_found", CodeBackendUnavailable, CodeBackendTimeout, CodeBackendRateLimited, CodeBackendAuthFailed, CodeModelNotFound,
	CodeBackendCrashed, "execution_tool_failed", CodeWorkspaceError, CodePermissionDenied, "contract_version_mismatch",
	CodeSchemaViolation, "contract_invalid_receipt", CodeCapability, "capability_emulation_failed", CodePolicyDenied, CodePolicyInvalid,
	"workspace_init_failed", "workspace_staging_failed", "ir_lowering_failed", "ir_invalid", "receipt_hash_mismatch", "receipt_chain_broken",
	"dialect_unknown", "dialect_mapping_failed", "config_invalid", "rate_limit_exceeded", "circuit_breaker_open", "stream_closed",
	"receipt_store_failed", CodeValidation, "sidecar_spawn_failed", "backend_content_filtered", "backend_context_length", CodeInternal,
}

func errorCode(to *ErrorCode) func(any) error { return variant(to, errorCodes) }
