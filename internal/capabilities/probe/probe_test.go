//go:build unix

package probe_test

import (
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/capabilities/probe"
)

// Every experiment is made again on the pinned runtime and must find what is
// on record.
func TestProbesFindWhatIsOnRecord(t *testing.T) {
	record, err := capabilities.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range probe.All() {
		t.Run(p.ID, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			was, ok := record.Finding(p.ID)
			if !ok {
				t.Error("it is not on record: run `make probe`")
			}
			now, err := p.Run(t.Context(), options(t))
			if err != nil {
				t.Fatal(err)
			}
			if len(now.Facts) == 0 {
				t.Error("it has seen nothing")
			}
			for _, d := range was.Differences(now) {
				t.Error(d)
			}
		})
	}
}

// Each question has its probe, and each probe its question.
func TestQuestionsAndProbesBelongTogether(t *testing.T) {
	asked := map[string]bool{}
	for _, q := range capabilities.Questions {
		asked[q.Probe] = true
		if q.Ask == "" || q.Answer == "" || (q.Hazard != "" && q.Safe == "") {
			t.Errorf("%s is not answered", q.Probe)
		}
	}
	for _, p := range probe.All() {
		if !asked[p.ID] {
			t.Errorf("nobody asks for %s", p.ID)
		}
		delete(asked, p.ID)
	}
	for id := range asked {
		t.Errorf("no probe answers %s", id)
	}
}
