//go:build unix

package capabilities

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// recording writes the findings to probes.json instead of comparing them.
var recording = flag.Bool("record", false, "record what the probes find")

// Every experiment is made again on the pinned runtime and must find the same
// facts as the record.
func TestProbes(t *testing.T) {
	record, err := capabilities.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	found := make([]capabilities.Finding, len(probes))
	if *recording {
		t.Cleanup(func() { write(t, found) }) // after the parallel tests
	}
	for i, p := range probes {
		t.Run(p.id, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			found[i] = p.run(t)
			for _, f := range found[i].Facts {
				t.Logf("%s: %s", f.What, f.Seen)
			}
			if *recording {
				return
			}
			was, ok := record.Finding(p.id)
			if !ok || len(found[i].Facts) == 0 {
				t.Error("there are no facts, or none on record: run `make probe`")
			}
			for _, d := range differences(was, found[i]) {
				t.Error(d + ": read the answers in docs/reference/capabilities.md again, then run `make probe`")
			}
		})
	}
}

// differences compares two findings of one probe, a line for each fact.
func differences(was, now capabilities.Finding) (out []string) {
	before := map[string]string{}
	for _, x := range was.Facts {
		before[x.What] = x.Seen
	}
	for _, x := range now.Facts {
		seen, ok := before[x.What]
		delete(before, x.What)
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("%s: %s (new)", x.What, x.Seen))
		case seen != x.Seen:
			out = append(out, fmt.Sprintf("%s: was %s, is %s", x.What, seen, x.Seen))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(before)) {
		out = append(out, fmt.Sprintf("%s: was %s, is no longer seen", what, before[what]))
	}
	return out
}

func TestDifferences(t *testing.T) {
	was := capabilities.Finding{Facts: []capabilities.Fact{{What: "a", Seen: "1"}, {What: "b", Seen: "2"}}}
	now := capabilities.Finding{Facts: []capabilities.Fact{{What: "a", Seen: "1"}, {What: "b", Seen: "3"}, {What: "c", Seen: "4"}}}
	if got := differences(was, now); !slices.Equal(got, []string{"b: was 2, is 3", "c: 4 (new)"}) {
		t.Errorf("%q", got)
	}
	if got := differences(now, was); !slices.Equal(got, []string{"b: was 3, is 2", "c: was 4, is no longer seen"}) {
		t.Errorf("%q", got)
	}
}

func write(t *testing.T, found []capabilities.Finding) {
	t.Helper()
	if t.Failed() {
		return
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, sdk, _ := strings.Cut(string(mod), sdkModule+" ")
	sdk, _, _ = strings.Cut(sdk, "\n")
	b, err := json.MarshalIndent(&capabilities.Record{Date: time.Now().UTC().Format(time.DateOnly), Runtime: copilotruntime.RuntimeVersion, SDK: sdk,
		Platform: goruntime.GOOS + "/" + goruntime.GOARCH, Findings: found}, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "internal", "capabilities", "probes.json"), append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Each question of the document has its probe, and each probe its question.
func TestQuestionsAndProbesBelongTogether(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "internal", "capabilities", "document.md.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	question := regexp.MustCompile(`\n### \d+\. .+\n(.+)\n(\n\*Hazard:\* .+\n)?(\n\*The bridge:\* .+\n)?\n\{\{facts "(.+)"\}\}`)
	var asked, tried []string
	for _, m := range question.FindAllStringSubmatch(string(text), -1) {
		asked = append(asked, m[4])
		if m[2] != "" && m[3] == "" {
			t.Errorf("%s: nothing is said about its hazard", m[4])
		}
	}
	for _, p := range probes {
		tried = append(tried, p.id)
	}
	if !slices.Equal(asked, tried) || strings.Count(string(text), "{{facts ") != len(asked) {
		t.Errorf("the questions %q are not those of the probes %q", asked, tried)
	}
}
