package contract

import (
	"crypto/sha256"
	"encoding/hex"
)

// Mode says how much of a run is translated.
type Mode string

// The modes.
const (
	Mapped      Mode = "mapped"
	Passthrough Mode = "passthrough"
)

var modes = []Mode{Passthrough, Mapped}

// Outcome says how a run ended.
type Outcome string

// The outcomes: there are no others.
const (
	Complete Outcome = "complete"
	Partial  Outcome = "partial"
	Failed   Outcome = "failed"
)

// Receipt is the record of a run.
type Receipt struct {
	Meta         Meta
	Backend      Backend
	Capabilities Manifest
	Mode         Mode
	UsageRaw     any
	Usage        Usage
	Trace        []Event
	Artifacts    []Artifact
	Verification Verification
	Outcome      Outcome
	SHA256       *string
}

// The parts of a receipt.
type (
	// Meta says which run it was, and when.
	Meta struct {
		RunID           UUID
		WorkOrderID     UUID
		ContractVersion string
		StartedAt       Time
		FinishedAt      Time
		DurationMS      uint64
	}
	// Backend says who ran it.
	Backend struct {
		ID             string
		BackendVersion *string
		AdapterVersion *string
	}
	// Usage is what it took; nil is not known.
	Usage struct {
		InputTokens      *uint64
		OutputTokens     *uint64
		CacheReadTokens  *uint64
		CacheWriteTokens *uint64
		RequestUnits     *uint64
		EstimatedCostUSD *float64
	}
	// Artifact is a file that the run left.
	Artifact struct{ Kind, Path string }
	// Verification is what git says of the workspace afterwards.
	Verification struct {
		GitDiff   *string
		GitStatus *string
		HarnessOK bool
	}
)

// ParseReceipt reads a receipt. Fields that the contract does not know are
// dropped.
func ParseReceipt(data []byte) (*Receipt, error) {
	p := parser{in: string(data)}
	v, err := p.document()
	if err != nil {
		return nil, err
	}
	var out Receipt
	if err := (reader{}).receipt(&out)(v); err != nil {
		return nil, err
	}
	return &out, nil
}

func (r reader) receipt(to *Receipt) func(any) error {
	return func(v any) error {
		to.Mode = Mapped
		return r.structure(v, "Receipt",
			field{"meta", always, func(v any) error {
				m := &to.Meta
				return r.structure(v, "RunMetadata", field{"run_id", always, uuid(&m.RunID)}, field{"work_order_id", always, uuid(&m.WorkOrderID)},
					field{"contract_version", always, text(&m.ContractVersion)}, field{"started_at", always, moment(&m.StartedAt)},
					field{"finished_at", always, moment(&m.FinishedAt)}, field{"duration_ms", always, natural(&m.DurationMS)})
			}},
			field{"backend", always, r.backend(&to.Backend)},
			field{"capabilities", always, r.manifest(&to.Capabilities)},
			field{"mode", optional, variant(&to.Mode, modes)},
			field{"usage_raw", always, anything(&to.UsageRaw)},
			field{"usage", always, func(v any) error {
				u := &to.Usage
				return r.structure(v, "UsageNormalized", field{"input_tokens", optional, maybe(&u.InputTokens, natural)},
					field{"output_tokens", optional, maybe(&u.OutputTokens, natural)}, field{"cache_read_tokens", optional, maybe(&u.CacheReadTokens, natural)},
					field{"cache_write_tokens", optional, maybe(&u.CacheWriteTokens, natural)}, field{"request_units", optional, maybe(&u.RequestUnits, natural)},
					field{"estimated_cost_usd", optional, maybe(&u.EstimatedCostUSD, float)})
			}},
			field{"trace", always, list(&to.Trace, r.event)},
			field{"artifacts", always, list(&to.Artifacts, r.artifact)},
			field{"verification", always, func(v any) error {
				f := &to.Verification
				return r.structure(v, "VerificationReport", field{"git_diff", optional, maybe(&f.GitDiff, text)},
					field{"git_status", optional, maybe(&f.GitStatus, text)}, field{"harness_ok", always, flag(&f.HarnessOK)})
			}},
			field{"outcome", always, variant(&to.Outcome, []Outcome{Complete, Partial, Failed})},
			field{"receipt_sha256", optional, maybe(&to.SHA256, text)},
		)
	}
}

func (r reader) backend(to *Backend) func(any) error {
	return func(v any) error {
		return r.structure(v, "BackendIdentity", field{"id", always, text(&to.ID)},
			field{"backend_version", optional, maybe(&to.BackendVersion, text)}, field{"adapter_version", optional, maybe(&to.AdapterVersion, text)})
	}
}

func (r reader) artifact(to *Artifact) func(any) error {
	return func(v any) error {
		return r.structure(v, "ArtifactRef", field{"kind", always, text(&to.Kind)}, field{"path", always, text(&to.Path)})
	}
}

func (b Backend) value() any {
	return record{{"id", b.ID}, {"backend_version", orNull(b.BackendVersion)}, {"adapter_version", orNull(b.AdapterVersion)}}
}

func (r *Receipt) value(sha any) record {
	trace := make([]any, len(r.Trace))
	for i := range r.Trace {
		trace[i] = &r.Trace[i]
	}
	artifacts := make([]any, len(r.Artifacts))
	for i, a := range r.Artifacts {
		artifacts[i] = record{{"kind", a.Kind}, {"path", a.Path}}
	}
	m, u, f := r.Meta, r.Usage, r.Verification
	return record{
		{"meta", record{{"run_id", string(m.RunID)}, {"work_order_id", string(m.WorkOrderID)}, {"contract_version", m.ContractVersion},
			{"started_at", m.StartedAt.String()}, {"finished_at", m.FinishedAt.String()}, {"duration_ms", m.DurationMS}}},
		{"backend", r.Backend.value()},
		{"capabilities", r.Capabilities.value()},
		{"mode", string(r.Mode)},
		{"usage_raw", r.UsageRaw},
		{"usage", record{{"input_tokens", orNull(u.InputTokens)}, {"output_tokens", orNull(u.OutputTokens)}, {"cache_read_tokens", orNull(u.CacheReadTokens)},
			{"cache_write_tokens", orNull(u.CacheWriteTokens)}, {"request_units", orNull(u.RequestUnits)}, {"estimated_cost_usd", orNull(u.EstimatedCostUSD)}}},
		{"trace", trace},
		{"artifacts", artifacts},
		{"verification", record{{"git_diff", orNull(f.GitDiff)}, {"git_status", orNull(f.GitStatus)}, {"harness_ok", f.HarnessOK}}},
		{"outcome", string(r.Outcome)},
		{"receipt_sha256", sha},
	}
}

// Append writes the receipt as it travels.
func (r *Receipt) Append(to []byte) []byte { return appendValue(to, r.value(orNull(r.SHA256)), false) }

// Canonical returns the bytes that are hashed: keys sorted everywhere, and
// null for the hash.
func (r *Receipt) Canonical() []byte {
	return appendValue(make([]byte, 0, 2048+256*len(r.Trace)), r.value(nil), true)
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
