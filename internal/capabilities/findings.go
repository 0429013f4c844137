package capabilities

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// Record is what the probes found, when, and on what.
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

// Recorded is what was found when the document was written.
func Recorded() (*Record, error) {
	var r Record
	if err := json.Unmarshal(recorded, &r); err != nil {
		return nil, fmt.Errorf("read the record of the probes: %w", err)
	}
	return &r, nil
}

// Finding returns the finding of a probe.
func (r *Record) Finding(probe string) (Finding, bool) {
	for _, f := range r.Findings {
		if f.Probe == probe {
			return f, true
		}
	}
	return Finding{}, false
}

// Differences tells two findings of one probe apart, a line for each fact.
func (f Finding) Differences(now Finding) []string {
	before := map[string]string{}
	for _, x := range f.Facts {
		before[x.What] = x.Seen
	}
	var out []string
	for _, x := range now.Facts {
		was, ok := before[x.What]
		delete(before, x.What)
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("%s: %s (new)", x.What, x.Seen))
		case was != x.Seen:
			out = append(out, fmt.Sprintf("%s: was %s, is %s", x.What, was, x.Seen))
		}
	}
	for _, x := range f.Facts {
		if was, gone := before[x.What]; gone {
			out = append(out, fmt.Sprintf("%s: was %s, is not seen any more", x.What, was))
		}
	}
	return out
}
