package app

import (
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/api/dashboard"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

// records are what the dashboard reads besides sessions and questions. Methods may
// be called concurrently.
type records struct {
	bridge    *Bridge
	workspace string // the directory that is meant where none is named
	readWrite bool   // what clients of the server may do there
	runs      *orchestrate.Looker
	began     time.Time
	// server is told of by health; nil without one.
	server *Server

	verifying sync.Mutex // held while the audit log is verified
}

var _ dashboard.Records = (*records)(nil)

// newRecords are those that the dashboard of a server shows.
func (s *Server) newRecords(o Serving) *records {
	return &records{bridge: s.bridge, workspace: o.Workspace, readWrite: o.ReadWrite, runs: orchestrate.NewLooker(s.bridge.opts.Config.Home),
		began: time.Now(), server: s}
}

func (r *records) Usage(since time.Time) ([]usagelog.Record, error) {
	return Usage(r.bridge.opts.Config).Read(since)
}
