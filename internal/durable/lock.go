package durable

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// How often a waiter tries again. The system's lock gives no wake-up that a
// context could interrupt, so waiting means polling. Only one waiter at a time
// is at the head of the queue, so it can afford to look more often.
const (
	queuePoll = 5 * time.Millisecond
	headPoll  = time.Millisecond
)

// Lock takes the exclusive lock that the file at path stands for, waiting for
// it until ctx ends; the caller bounds the wait through ctx. The file, one
// beside it with the suffix .queue, and their directory are created if
// missing. Lock excludes other processes as well as other goroutines of this
// one, and is not reentrant. It orders access to files only: memory that
// goroutines share still needs a mutex.
//
// The system releases the lock when its holder dies, however it dies. The
// files themselves stay for good: removing one would let two holders lock two
// different files of one name. The lock is advisory, so path should be a
// separate file and not the protected one, which WriteFile replaces.
//
// unlock may be called more than once; only the first call counts.
func Lock(ctx context.Context, path string) (unlock func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return nil, fault("lock", path, err)
	}
	// Everyone goes through the queue lock and keeps it until it has the lock
	// proper. Otherwise a process that locks again as soon as it has unlocked
	// would nearly always come before those that wait, since they are between
	// two polls, and could starve them.
	queue := flock.New(path+".queue", flock.SetPermissions(0o600))
	if err := wait(ctx, queue, path, queuePoll); err != nil {
		return nil, err
	}
	file := flock.New(path, flock.SetPermissions(0o600))
	waitErr := wait(ctx, file, path, headPoll)
	if err := queue.Unlock(); err != nil {
		return nil, errors.Join(waitErr, fmt.Errorf("lock %s: %w", path, err), file.Unlock())
	}
	if waitErr != nil {
		return nil, waitErr
	}
	return file.Unlock, nil
}

// TryLock takes the lock that the file at path stands for if it is free, and
// does not wait; ok says whether it was. Its directory must exist. The lock is
// for files that are never waited for: it does not enter the queue of Lock.
func TryLock(path string) (unlock func() error, ok bool, err error) {
	file := flock.New(path, flock.SetPermissions(0o600))
	if ok, err = file.TryLock(); err != nil {
		return nil, false, fault("lock", path, err)
	}
	return file.Unlock, ok, nil
}

func wait(ctx context.Context, file *flock.Flock, path string, poll time.Duration) error {
	_, err := file.TryLockContext(ctx, poll)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return &bridge.Error{
			Code:    bridge.CodeBusy,
			Message: fmt.Sprintf("%s is locked: another copilot-bridge holds it", path),
			Remedy:  "Try again; if it stays locked, look for a copilot-bridge process that is stopped or stuck, and end it.",
			Cause:   err,
		}
	default:
		return fault("lock", path, err)
	}
}

// Share takes a shared lock: others may share it, but TryLock fails meanwhile.
// It waits until ctx ends; ok says whether it got the lock.
func Share(ctx context.Context, path string) (unlock func() error, ok bool, err error) {
	file := flock.New(path, flock.SetPermissions(0o600))
	if ok, err = file.TryRLockContext(ctx, headPoll); err != nil && ctx.Err() == nil {
		return nil, false, fault("lock", path, err)
	}
	return file.Unlock, ok, nil
}
