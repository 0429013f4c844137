package dashboard

import (
	"net/http"
	"time"
)

// Health is how the bridge is.
type Health struct {
	OK         bool            `json:"ok"` // Copilot can answer
	Version    string          `json:"version"`
	PID        int             `json:"pid"`
	Copilot    HealthCopilot   `json:"copilot"`
	Answers    string          `json:"answers"` // who does
	Runtimes   []HealthRuntime `json:"runtimes"`
	Restarts   int64           `json:"runtime_restarts"`
	Agents     []HealthAgent   `json:"agents"` // the ways to Copilot, in order of preference
	Doors      []HealthDoor    `json:"doors"`
	Sandbox    HealthSandbox   `json:"sandbox"`
	Processes  []HealthProcess `json:"processes"` // of the bridge, this one among them
	Memory     int64           `json:"memory"`    // of this process in bytes; 0 where it is not known
	Goroutines int             `json:"goroutines"`
	Uptime     float64         `json:"uptime"` // in seconds
	OpenTurns  int             `json:"open_turns"`
	Waiting    int             `json:"waiting_turns"`
}

// HealthCopilot is whether Copilot can answer, as /healthz has it.
type HealthCopilot struct {
	State   string `json:"state"` // ok, limited, unavailable or demo
	Reason  string `json:"reason,omitempty"`
	Runtime string `json:"runtime,omitempty"` // the version that it reports
}

// HealthRuntime is a running runtime of Copilot.
type HealthRuntime struct {
	Profile  string `json:"profile"` // chat or agent
	PID      int    `json:"pid"`
	Memory   int64  `json:"memory"` // 0 where it is not known
	Starts   int64  `json:"starts"` // of it and those before it in its place
	Sessions int    `json:"sessions"`
}

// HealthAgent is a way to reach Copilot, and how it fared.
type HealthAgent struct {
	Name   string `json:"name"`
	InUse  bool   `json:"in_use"`
	Failed string `json:"failed,omitempty"` // why it was passed over
}

// HealthDoor is an API and its address.
type HealthDoor struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// HealthSandbox is whether programs are confined.
type HealthSandbox struct {
	On     bool   `json:"on"`
	Mode   string `json:"mode"` // the setting: auto, require or off
	With   string `json:"with,omitempty"`
	Reason string `json:"reason,omitempty"` // why there is none
	Remedy string `json:"remedy,omitempty"`
}

// HealthProcess is a running process of the bridge.
type HealthProcess struct {
	ID        string    `json:"id"`
	PID       int       `json:"pid"`
	Command   string    `json:"command"`
	Workspace string    `json:"workspace,omitempty"`
	Version   string    `json:"version,omitempty"`
	URL       string    `json:"url,omitempty"`
	Since     time.Time `json:"since"`
}

// health is GET /health.
func (a *API) health(_ http.ResponseWriter, r *http.Request) (any, error) {
	return a.opts.Records.Health(r.Context()), nil
}
