package capabilities

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

// Record holds the findings of the probes, their date and the versions.
type Record struct {
	Date     string    `json:"date"`
	Runtime  string    `json:"runtime"` // the npm package's version
	SDK      string    `json:"sdk"`
	Platform string    `json:"platform"`
	Findings []Finding `json:"findings"`
}

// Finding is what one probe saw. The facts hold nothing that differs from run
// to run: a test compares them.
type Finding struct {
	Probe string `json:"probe"`
	Facts []Fact `json:"facts"`
}

// Fact is one observation.
type Fact struct {
	What string `json:"what"`
	Seen string `json:"seen"`
}

//go:embed probes.json
var recorded []byte

// Recorded is the committed record.
func Recorded() (*Record, error) {
	var r Record
	if err := json.Unmarshal(recorded, &r); err != nil {
		return nil, fmt.Errorf("read the record of the probes: %w", err)
	}
	return &r, nil
}

// Finding returns the finding of a probe.
func (r *Record) Finding(probe string) (Finding, bool) {
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Probe == probe })
	if i < 0 {
		return Finding{}, false
	}
	return r.Findings[i], true
}
