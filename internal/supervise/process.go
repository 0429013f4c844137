package supervise

import (
	"context"
	"os"
	"time"
)

// Process is a process that cannot be taken for a later one with the same id.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in the system's own unit
}

// Self is this process.
func Self() Process { return ProcessOf(os.Getpid()) }

// ProcessOf is the process that has the id now.
func ProcessOf(pid int) Process { return Process{PID: pid, Start: startTime(pid)} }

// Alive says whether the process has not ended.
func (p Process) Alive() bool {
	return p.PID > 0 && alive(p.PID, p.Start) && startTime(p.PID) == p.Start
}

// Terminate asks the process to end. On Windows it ends at once.
func (p Process) Terminate() error { return terminate(p.PID) }

// Wait waits until the process has ended, and says whether it has within the limit.
func (p Process) Wait(ctx context.Context, limit time.Duration) bool {
	waitGone(ctx, p.PID, p.Start, limit)
	return !p.Alive()
}
