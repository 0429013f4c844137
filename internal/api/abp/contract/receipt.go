package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
)

// Mode says how much of a run is translated.
type Mode string

// The modes.
const (
	Mapped      Mode = "mapped"
	Passthrough Mode = "passthrough"
)

func (Mode) values() []string { return []string{string(Passthrough), string(Mapped)} }

// Outcome says how a run ended.
type Outcome string

// The outcomes: there are no others.
const (
	Complete Outcome = "complete"
	Partial  Outcome = "partial"
	Failed   Outcome = "failed"
)

func (Outcome) values() []string { return []string{string(Complete), string(Partial), string(Failed)} }

// Receipt is the record of a run.
type Receipt struct {
	Meta         Meta         `abp:"meta"`
	Backend      Backend      `abp:"backend"`
	Capabilities Manifest     `abp:"capabilities"`
	Mode         Mode         `abp:"mode,optional=mapped"`
	UsageRaw     any          `abp:"usage_raw"`
	Usage        Usage        `abp:"usage"`
	Trace        []Event      `abp:"trace"`
	Artifacts    []Artifact   `abp:"artifacts"`
	Verification Verification `abp:"verification"`
	Outcome      Outcome      `abp:"outcome"`
	SHA256       *string      `abp:"receipt_sha256"`
}

// The parts of a receipt.
type (
	// Meta says which run it was, and when.
	Meta struct {
		RunID           UUID   `abp:"run_id"`
		WorkOrderID     UUID   `abp:"work_order_id"`
		ContractVersion string `abp:"contract_version"`
		StartedAt       Time   `abp:"started_at"`
		FinishedAt      Time   `abp:"finished_at"`
		DurationMS      uint64 `abp:"duration_ms"`
	}
	// Backend says who ran it.
	Backend struct {
		ID             string  `abp:"id"`
		BackendVersion *string `abp:"backend_version"`
		AdapterVersion *string `abp:"adapter_version"`
	}
	// Usage is what it took; nil is not known.
	Usage struct {
		InputTokens      *uint64  `abp:"input_tokens"`
		OutputTokens     *uint64  `abp:"output_tokens"`
		CacheReadTokens  *uint64  `abp:"cache_read_tokens"`
		CacheWriteTokens *uint64  `abp:"cache_write_tokens"`
		RequestUnits     *uint64  `abp:"request_units"`
		EstimatedCostUSD *float64 `abp:"estimated_cost_usd"`
	}
	// Artifact is a file that the run left.
	Artifact struct {
		Kind string `abp:"kind"`
		Path string `abp:"path"`
	}
	// Verification is what git says of the workspace afterwards.
	Verification struct {
		GitDiff   *string `abp:"git_diff"`
		GitStatus *string `abp:"git_status"`
		HarnessOK bool    `abp:"harness_ok"`
	}
)

// ParseReceipt reads a receipt. Unknown fields are dropped.
func ParseReceipt(data []byte) (*Receipt, error) {
	v, err := parse(data)
	if err != nil {
		return nil, err
	}
	var out Receipt
	if err := (reader{}).read(v, reflect.ValueOf(&out).Elem()); err != nil {
		return nil, err
	}
	return &out, nil
}

// Append writes the receipt as it travels.
func (r *Receipt) Append(to []byte) []byte { return appendAny(to, reflect.ValueOf(r), false) }

// Canonical returns the bytes that are hashed: sorted keys, null for the hash.
func (r *Receipt) Canonical() []byte {
	unsealed := *r
	unsealed.SHA256 = nil
	return appendAny(make([]byte, 0, 2048+256*len(r.Trace)), reflect.ValueOf(&unsealed), true)
}

// Hash returns the canonical SHA-256 in lower-case hex.
func (r *Receipt) Hash() string {
	sum := sha256.Sum256(r.Canonical())
	return hex.EncodeToString(sum[:])
}

// Seal computes the hash and keeps it.
func (r *Receipt) Seal() {
	h := r.Hash()
	r.SHA256 = &h
}
