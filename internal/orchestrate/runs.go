package orchestrate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Listed is one run in the list of runs.
type Listed struct {
	Meta
	// Outcome is nil for a run that was not finished.
	Outcome *Result `json:"outcome,omitempty"`
	State   string  `json:"state"` // running, interrupted or finished
}

// Runs lists the runs of a home, the newest first.
func Runs(home string) ([]Listed, error) {
	entries, err := os.ReadDir(RunsDir(home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []Listed
	for _, e := range entries {
		dir := filepath.Join(RunsDir(home), e.Name())
		m, err := readMeta(dir)
		if err != nil {
			continue // not a run, or one that cannot be resumed
		}
		l := Listed{Meta: m}
		if data, err := durable.ReadFile(filepath.Join(dir, "result.json")); err == nil {
			var r Result
			if json.Unmarshal(data, &r) == nil {
				l.Outcome = &r
			}
		}
		l.State = l.stateOf(home)
		out = append(out, l)
	}
	// By the clock: the ids of one second say nothing of their order.
	slices.SortStableFunc(out, func(a, b Listed) int { return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.ID, a.ID)) })
	return out, nil
}

// FindRun returns the run that an id, the beginning of one, or "last" names.
func FindRun(home, id string) (Meta, error) {
	runs, err := Runs(home)
	if err != nil {
		return Meta{}, err
	}
	if id == "last" && len(runs) > 0 {
		return runs[0].Meta, nil
	}
	var found []Meta
	for _, r := range runs {
		if r.ID == id {
			return r.Meta, nil
		}
		if id != "" && strings.HasPrefix(r.ID, id) {
			found = append(found, r.Meta)
		}
	}
	switch len(found) {
	case 0:
		return Meta{}, noRun(id)
	case 1:
		return found[0], nil
	}
	return Meta{}, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%d runs begin with %q", len(found), id), Remedy: "give more of the id, such as " + found[0].ID}
}

func noRun(id string) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("there is no run %q", id),
		Remedy: "`copilot-bridge orchestrate --list` shows what there is"}
}
