package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkDisk measures how much disk space 10,000 requests need with the
// default retention: at most 20 MB. Every fifth request is an agent task, the
// others are chats. Neither appears in the session list, so only the audit log
// grows.
func BenchmarkDisk(b *testing.B) {
	const requests, bound = 10_000, 20_000_000
	ctx, m := context.Background(), startModel(b)
	home := b.TempDir()
	s := startServe(b, m, "HOME="+home, "COPILOT_BRIDGE_HOME="+home)
	empty := diskOf(b, home)
	for b.Loop() {
		half := atomic.Int64{}
		var next atomic.Int64
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				for i := next.Add(1); i <= requests; i = next.Add(1) {
					if i == requests/2 {
						half.Store(diskOf(b, home))
					}
					model := m.Model()
					if i%5 == 0 {
						model = "agent/" + model
					}
					if _, _, err := s.ask(ctx, model, message{"user", fmt.Sprintf("request %d\n%s", i, prompt)}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
		// Old files are removed in the background, so wait until that is done.
		for size, again := diskOf(b, home), int64(-1); size != again; {
			<-time.After(time.Second)
			size, again = diskOf(b, home), size
		}
		used := diskOf(b, home) - empty
		for _, part := range []string{"sessions", "copilot", "audit"} {
			b.Logf("%s: %.1f MB", part, float64(diskOf(b, filepath.Join(home, part)))/1e6)
		}
		report("disk after 10,000 requests (5,000)", fmt.Sprintf("%.0f MB", float64(half.Load()-empty)/1e6), fmt.Sprintf("%.0f MB", float64(used)/1e6),
			fmt.Sprintf("%.1f KB a request", float64(used)/requests/1e3), fmt.Sprintf("≤ %.0f MB", float64(bound)/1e6), used <= bound)
		b.ReportMetric(float64(used)/1e6, "MB")
	}
}

// diskOf sums the sizes of all files below a directory, which may change
// meanwhile.
func diskOf(b *testing.B, dir string) (sum int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return sum
}
