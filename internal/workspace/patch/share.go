package patch

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// fewFiles is up to where one goroutine is enough.
	fewFiles = 64
	maxParts = 8
)

// parts is how many goroutines share the work on n files.
func parts(n int) int {
	if n < fewFiles {
		return 1
	}
	return min(runtime.GOMAXPROCS(0), maxParts)
}

// share calls do for each number below n, each part of them in order on a
// goroutine of its own, and returns when all have. After an error no further
// calls begin.
func share(n int, do func(i int) error) error { return among(parts(n), n, do) }

func among(parts, n int, do func(i int) error) error {
	var failed atomic.Bool
	run := func(part int) error {
		for i := n * part / parts; i < n*(part+1)/parts && !failed.Load(); i++ {
			if err := do(i); err != nil {
				failed.Store(true)
				return err
			}
		}
		return nil
	}
	if parts == 1 {
		return run(0)
	}
	errs := make([]error, parts)
	var running sync.WaitGroup
	for part := range parts {
		running.Go(func() { errs[part] = run(part) })
	}
	running.Wait()
	return errors.Join(errs...)
}
