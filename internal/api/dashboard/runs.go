package dashboard

import (
	"net/http"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Run is a run of orchestrate in a list.
type Run struct {
	ID      string    `json:"id"`
	Task    string    `json:"task"`
	Dir     string    `json:"dir"`
	State   string    `json:"state"`   // running, interrupted or finished
	Success bool      `json:"success"` // of a finished one: everything was done
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Tasks   RunCounts `json:"tasks"`
}

// RunCounts are the tasks of a run; no total: there is no plan yet.
type RunCounts struct {
	Total   int `json:"total"`
	Done    int `json:"done"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"` // or canceled
	Running int `json:"running"`
}

// RunDetail is a run with its tasks.
type RunDetail struct {
	ID           string       `json:"id"`
	Task         string       `json:"task"`
	Dir          string       `json:"dir"`
	State        string       `json:"state"`
	Success      bool         `json:"success"`
	Started      time.Time    `json:"started"`
	Ended        time.Time    `json:"ended,omitzero"`
	Isolation    string       `json:"isolation"`
	Merge        string       `json:"merge"`
	Concurrency  int          `json:"concurrency"`
	Tasks        []RunTask    `json:"tasks"` // in the order of the plan
	Summary      string       `json:"summary,omitempty"`
	Files        []string     `json:"files"` // that were changed in the end
	Branch       string       `json:"branch,omitempty"`
	Kept         []string     `json:"kept_branches"` // with work that is not in the result
	CriticalPath []string     `json:"critical_path"`
	Notices      []string     `json:"notices"`
	Usage        bridge.Usage `json:"usage"`
}

// RunTask is a task of a run.
type RunTask struct {
	ID         string    `json:"id"`
	Title      string    `json:"title"` // the goal's first line
	Goal       string    `json:"goal"`
	Complexity string    `json:"complexity"`
	Needs      []string  `json:"needs"`
	Wave       int       `json:"wave"`
	State      string    `json:"state"` // pending, running, done, failed, skipped or canceled
	Doing      string    `json:"doing,omitempty"`
	Session    string    `json:"session,omitempty"`
	Attempts   int       `json:"attempts"`
	Started    time.Time `json:"started,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
	DurationMs int64     `json:"duration_ms,omitempty"`
	Error      *RunError `json:"error,omitempty"`
	Reason     string    `json:"reason,omitempty"` // why it was skipped
	Summary    string    `json:"summary,omitempty"`
	Files      []string  `json:"files"`
	Tools      int       `json:"tools"`
	Denied     int       `json:"denied"`
	HeldBack   bool      `json:"held_back,omitempty"` // its work does not fit together with the rest
	Branch     string    `json:"branch,omitempty"`

	Usage bridge.Usage `json:"usage"`
}

// RunError is why a task has failed.
type RunError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// RunDiff is what a task has changed.
type RunDiff struct {
	Diff    string   `json:"diff"`
	Clipped int      `json:"clipped,omitempty"` // bytes that are left out
	Files   []string `json:"files"`
}

const (
	runsListed   = 50
	runsStreamed = 20 // with the overall state
	maxRuns      = 500
	maxDiff      = 1 << 20
)

// runs is GET /runs.
func (a *API) runs(_ http.ResponseWriter, r *http.Request) (any, error) {
	limit, err := number(r.URL.Query(), "limit", runsListed, maxRuns)
	if err != nil {
		return nil, err
	}
	list, err := a.opts.Records.Runs(int(limit))
	return map[string]any{"runs": list}, err
}

// run is GET /runs/{id}.
func (a *API) run(_ http.ResponseWriter, r *http.Request) (any, error) {
	return a.opts.Records.Run(r.PathValue("id"))
}

// runDiff is GET /runs/{id}/tasks/{task}/diff.
func (a *API) runDiff(_ http.ResponseWriter, r *http.Request) (any, error) {
	return a.opts.Records.RunDiff(r.Context(), r.PathValue("id"), r.PathValue("task"), maxDiff)
}
