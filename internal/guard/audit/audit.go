// Package audit keeps the record of what sessions did and what was decided
// about it: one JSON line an entry, one file a day, each entry holding the
// hash of the one before it, across files and processes.
//
// # What can be proven
//
// Verify finds every entry that was changed, removed, moved, repeated or put
// in, and says where. Entries cut off the end are found with head.json, which
// names the last entry; removing or replacing that file is found too, now or
// by the next entry that is written. A log that is gone altogether, or that was
// replaced by another, is found with the witness, a file in another directory
// that knows the last entry too. Entries say that it was there, so that it is
// missed as well. What a crash leaves half-written is kept,
// and the next entry records what it was.
//
// # What cannot
//
// Somebody who may write both directories can write a whole new log with a
// matching head.json and witness, or remove everything. To find that out, keep the hash of the last entry
// somewhere else and give it to Verify later: a log that does not contain it
// is not the same log. Entries are not signed, and a power cut may take the
// last of them unless Options.Sync is set; Verify then says that they are
// missing.
//
// Nothing is ever deleted or rewritten here. The guard appends; the audit
// commands and the dashboard read.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Hook says at which point of a session an entry was made.
type Hook string

// The hooks. HookRepair is written by the log itself.
const (
	HookStart       Hook = "start"
	HookStop        Hook = "stop"
	HookPrompt      Hook = "prompt"
	HookPreTool     Hook = "pre_tool"
	HookPermission  Hook = "permission"
	HookPostTool    Hook = "post_tool"
	HookToolFailure Hook = "tool_failure"
	HookError       Hook = "error"
	HookApproval    Hook = "approval"
	HookPolicy      Hook = "policy"
	HookRepair      Hook = "repair"
)

// Entry is one line of the log. Whoever appends sets the fields from Hook to
// Duration; the log sets the others. Input and Output are anything that can be
// encoded as JSON; in entries that are read back they are json.RawMessage.
type Entry struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	PID  int       `json:"pid"`

	Hook     Hook   `json:"hook"`
	Session  string `json:"session,omitempty"`
	Door     string `json:"door,omitempty"`
	Tool     string `json:"tool,omitempty"`
	Call     string `json:"call,omitempty"`
	Input    any    `json:"input,omitempty"`
	Output   any    `json:"output,omitempty"`
	Decision string `json:"decision,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Sandbox is what the sandbox does about it, besides the decision: that it
	// is confined, and what it was granted. "" where there is none.
	Sandbox  string  `json:"sandbox,omitempty"`
	Duration float64 `json:"duration_ms,omitempty"` // milliseconds

	// PrevFile is set in the first entry of a file and names the file that
	// the entry before it is in.
	PrevFile string  `json:"prev_file,omitempty"`
	Repair   *Repair `json:"repair,omitempty"`
	// Witness stands for the witness that was there when the entry was written.
	Witness string `json:"witness,omitempty"`
	Prev    string `json:"prev"`           // the hash of the entry before
	Hash    string `json:"hash,omitempty"` // of this one; see seal
}

// Repair records what was found wrong at the end of the log when the next
// entry was to be written.
type Repair struct {
	Cause Cause `json:"cause"`
	// Unreadable bytes at the end of a file, left where they are.
	File   string `json:"file,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// What head.json said, if that was not what the files say.
	HeadSeq  uint64 `json:"head_seq,omitempty"`
	HeadHash string `json:"head_hash,omitempty"`
}

// Cause is why a repair was needed. Only CauseUnfinished happens by accident
// alone; the others are problems to Verify.
type Cause string

// The causes.
const (
	CauseUnfinished  Cause = "unfinished write" // a crash, a full disk
	CauseGarbage     Cause = "foreign lines"    // whole lines that are no entries
	CauseMissing     Cause = "missing entries"  // head.json knew of more
	CauseReplaced    Cause = "replaced entry"   // head.json knew another last entry
	CauseHeadMissing Cause = "head.json missing"
	CauseHeadBehind  Cause = "head.json behind"
	CauseUnwitnessed Cause = "witness missing"
)

// Options of a Log.
type Options struct {
	// Redact returns a copy of an input or output without secrets. It may be
	// called concurrently.
	Redact func(any) any
	// MaxField bounds the encoded size of an input or output in bytes; a
	// larger one is cut, with a note that says how large it was and its hash.
	// 0 means 16 KiB.
	MaxField int
	// Sync flushes each entry to the disk before Append returns. Without it an
	// entry survives the end of every process but not a power cut, and costs
	// a tenth of a millisecond rather than several: as a rule a log that tells
	// that its last second is missing is worth more than tools that wait.
	Sync bool
	// Witness is a file outside the log's directory that keeps in mind how far
	// the log has come, so that a log that is gone is missed; see WitnessFile.
	// "" for none.
	Witness string

	now func() time.Time // for tests
}

const (
	defaultMaxField = 16 << 10
	maxText         = 4 << 10 // of the fields that are plain text
	lockWait        = 10 * time.Second
	lockName        = "audit.lock"
	headName        = "head.json"
)

var fileName = regexp.MustCompile(`^audit-\d{4}-\d{2}-\d{2}\.jsonl$`)

// Log appends entries to the log in a directory, which any number of
// processes may do at the same time. Its methods may be called concurrently.
type Log struct {
	dir  string
	opts Options
	// turn is held by the one goroutine of this process that appends; it is a
	// channel so that waiting for it can be given up.
	turn   chan struct{}
	closed bool    // guarded by turn
	last   *end    // where the log ended when we last looked; guarded by turn
	open   handles // guarded by turn
}

// Open returns the log in dir, which is made if missing. It fails if the log
// could not be written.
func Open(dir string, opts Options) (*Log, error) {
	if opts.MaxField <= 0 {
		opts.MaxField = defaultMaxField
	}
	if opts.now == nil {
		opts.now = time.Now
	}
	if opts.Redact == nil {
		return nil, errors.New("audit: no redaction given")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, unavailable(dir, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, unavailable(abs, err)
	}
	l := &Log{dir: abs, opts: opts, turn: make(chan struct{}, 1)}
	unlock, err := l.lock(context.Background())
	if err != nil {
		return nil, err
	}
	err = probe(abs)
	if unlockErr := unlock(); err == nil && unlockErr != nil {
		err = unavailable(abs, unlockErr)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// probe checks that files can be made in dir, so that a session does not
// begin whose every tool call would be denied.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return unavailable(dir, err)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return unavailable(dir, err)
	}
	return nil
}

// Close waits for an append that is under way. Later ones fail.
func (l *Log) Close() error {
	l.turn <- struct{}{}
	l.closed = true
	err := l.open.close()
	<-l.turn
	return err
}

// bounded returns a redacted copy of v whose encoding is not too long.
func (l *Log) bounded(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	data, err := encode(l.opts.Redact(v))
	if err != nil {
		return nil, err
	}
	if len(data) <= l.opts.MaxField {
		return data, nil
	}
	return encode(map[string]any{"truncated": map[string]any{
		"bytes":  len(data),
		"sha256": hexSum(data),
		"head":   cut(string(data), l.opts.MaxField/2),
	}})
}

// unavailable says that the log cannot be written, and what to do about it.
func unavailable(path string, cause error) error {
	if code := bridge.CodeOf(cause); code == bridge.CodeUnavailable {
		return cause
	}
	return &bridge.Error{
		Code:    bridge.CodeUnavailable,
		Message: fmt.Sprintf("the audit log %s cannot be written", path),
		Remedy:  remedy(cause),
		Cause:   cause,
	}
}

func remedy(cause error) string {
	switch {
	case isFull(cause):
		return "Free some space on that disk, or set COPILOT_AUDIT_LOG_DIR to a directory on another one. Nothing runs unrecorded."
	case errors.Is(cause, os.ErrPermission):
		return "Make it writable for this user, or set COPILOT_AUDIT_LOG_DIR to a directory that is. Nothing runs unrecorded."
	case bridge.CodeOf(cause) == bridge.CodeBusy:
		return "Look for a copilot-bridge process that is stopped or stuck, and end it. Nothing runs unrecorded."
	}
	return "Check the directory, or set COPILOT_AUDIT_LOG_DIR to another one. Nothing runs unrecorded."
}
