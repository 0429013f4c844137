// Package audit keeps the record of what sessions do and of the decisions about
// it: one JSON line per entry, one file per day, each entry with the hash of
// the one before it, across files and processes. Entries are not signed and are
// never rewritten, and the record is not for replay. The guard appends; the
// audit commands of package cli read and verify it, and prune it through app.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Hook says at which point of a session an entry was made.
type Hook string

// The hooks. HookRepair and HookPrune are written by the log itself.
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
	HookRepair      Hook = "repair"
	HookPrune       Hook = "prune"
	HookPolicy      Hook = "policy" // the policy in force has changed
	HookFleet       Hook = "fleet"  // a machine of the fleet was refused something
)

// Entry is one line of the log. The caller of Append sets the fields from Hook
// to Duration; the log sets the others. Input and Output are anything that can be
// encoded as JSON; in entries that are read back they are json.RawMessage.
type Entry struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	PID  int       `json:"pid"`

	Hook    Hook   `json:"hook"`
	Session string `json:"session,omitempty"`
	Door    string `json:"door,omitempty"`
	// Caller is the program on whose behalf it happened, as it names itself, and
	// Connection and Request tell its connections and requests apart.
	Caller     string `json:"caller,omitempty"`
	Connection string `json:"connection,omitempty"`
	Request    string `json:"request,omitempty"`
	Tool       string `json:"tool,omitempty"`
	Call       string `json:"call,omitempty"`
	Input      any    `json:"input,omitempty"`
	Output     any    `json:"output,omitempty"`
	// Result tells what a call has returned, without secrets.
	Result   *Result `json:"result,omitempty"`
	Decision string  `json:"decision,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	// Sandbox is what the sandbox does about it, besides the decision: that it
	// is confined, and what it was granted. "" where there is none.
	Sandbox  string  `json:"sandbox,omitempty"`
	Duration float64 `json:"duration_ms,omitempty"` // milliseconds

	// PrevFile is set in the first entry of a file and names the file that
	// the entry before it is in.
	PrevFile string `json:"prev_file,omitempty"`
	// Segment sums that file up, which is closed by this.
	Segment *Segment `json:"segment,omitempty"`
	// Pruned is the last of the entries that were deleted on purpose.
	Pruned uint64  `json:"pruned,omitempty"`
	Repair *Repair `json:"repair,omitempty"`
	// Witness stands for the witness that was there when the entry was written.
	Witness string `json:"witness,omitempty"`
	Prev    string `json:"prev"`           // the hash of the entry before
	Hash    string `json:"hash,omitempty"` // of this one; see seal
}

// Result is the text that a call has returned, without secrets: its texts, with
// a line feed between two, or its result as JSON.
type Result struct {
	Bytes   int    `json:"bytes"`
	SHA256  string `json:"sha256"`
	Preview string `json:"preview,omitempty"` // its beginning
}

// Repair records damage at the end of the log that was found before the next
// entry was written.
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
	// Witness is a file outside the log's directory that keeps in mind how far
	// the log has come, so that a log that is gone is missed; see WitnessFile.
	// "" for none.
	Witness string
	// Keep is the age past which closed segments are deleted; 0 keeps all.
	Keep time.Duration

	// For tests.
	now         func() time.Time
	segmentSize int64
}

const (
	defaultMaxField = 16 << 10
	maxText         = 4 << 10 // of the fields that are plain text
	maxName         = 200     // of those that a client has worded
	lockWait        = 10 * time.Second
	lockName        = "audit.lock"
	headName        = "head.json"
)

var fileName = regexp.MustCompile(`^audit-\d{4}-\d{2}-\d{2}(_\d{4})?\.jsonl$`)

// Log appends entries to the log in a directory, which any number of
// processes may do at the same time. Its methods may be called concurrently.
//
// What a crash leaves half-written is kept, and the next entry records it as a
// Repair. Files are not synced, so a power cut may take the last entries;
// Verify then says that they are missing, unless head.json and the witness lost
// them too.
type Log struct {
	dir  string
	opts Options
	// turn is held by the one goroutine of this process that appends; it is a
	// channel so that waiting for it can be given up.
	turn   chan struct{}
	closed bool    // guarded by turn
	last   *end    // where the log ended when we last looked; guarded by turn
	open   handles // guarded by turn
	// mine is the last entry that this process wrote. The next entry gets a
	// higher number, even if the directory is gone; guarded by turn.
	mine    *head
	pruned  string // the file in which Keep was last looked after; guarded by turn
	pruning sync.WaitGroup
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
	if opts.segmentSize <= 0 {
		opts.segmentSize = segmentSize
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
	if err := l.locked(context.Background(), func() error { return probe(abs) }); err != nil {
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

// Close waits for an append that is under way, and for old segments that are
// being deleted. Later appends fail.
func (l *Log) Close() error {
	l.turn <- struct{}{}
	l.opts.Keep = 0 // nothing more is begun
	<-l.turn
	l.pruning.Wait()
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
	var said *bridge.Error
	if errors.As(cause, &said) && said.Code == bridge.CodeUnavailable {
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
