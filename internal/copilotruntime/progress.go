package copilotruntime

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// Step is one report of an install's progress.
type Step struct {
	Text  string
	Done  int64 // bytes on disk so far
	Total int64 // bytes expected in the end; 0 if not known
}

// Progress receives the steps of an install; nil drops them. It is never
// called concurrently by one install and never after the install returned,
// but comes from different goroutines. A slow one delays only the reports.
type Progress func(Step)

func (p Progress) report(s Step) {
	if p != nil {
		p(s)
	}
}

const watchInterval = 200 * time.Millisecond

// watchSize reports the growth of dir until ctx ends or the returned stop is
// called, which waits for the last report to be over. npm does not tell how
// much of a package it has, but unpacks while it downloads.
func watchSize(ctx context.Context, dir string, p Progress, step Step) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() {
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			step.Done = max(step.Done, sizeOf(dir))
			if step.Total > 0 {
				step.Done = min(step.Done, step.Total)
			}
			p.report(step)
		}
	})
	return func() {
		cancel()
		reporting.Wait()
	}
}

// sizeOf adds up the files under dir. Files come and go while npm works, so
// what cannot be looked at counts as nothing.
func sizeOf(dir string) int64 {
	var total int64
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}
