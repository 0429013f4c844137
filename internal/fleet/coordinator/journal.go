package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

const (
	// maxEntry bounds an entry in a message; larger ones are objects in BucketRuns.
	maxEntry = 512 << 10
	// maxBatch ends a batch of entries, so that it stays below 1 MiB with one more.
	maxBatch = 256 << 10
	// longEntry is the size of an object for which there has to be time.
	longEntry = 64 << 20
)

// entry is one fact of a run. A message of the journal is a list of them. The
// first says how the run began; each owner begins with its epoch, after which
// its predecessor cannot append any more.
type entry struct {
	Schema int               `json:"schema"`
	Epoch  string            `json:"epoch,omitempty"`
	Repo   string            `json:"repo,omitempty"` // names the mirrors of the workers
	Meta   *orchestrate.Meta `json:"meta,omitempty"`
	Event  json.RawMessage   `json:"event,omitempty"`
	Commit *commit           `json:"commit,omitempty"`
	Object string            `json:"object,omitempty"` // holds the entry, which is large
}

// commit is one that a coordinator that takes over needs. Its bundle is in Data,
// or in the object Stored of BucketRuns; with neither, other clones have it.
type commit struct {
	Commit string       `json:"commit"`
	Parent string       `json:"parent,omitempty"` // of a result
	Bundle fleet.Bundle `json:"bundle"`
	Data   []byte       `json:"data,omitempty"`
	Stored string       `json:"stored,omitempty"`
}

// journal appends to the journal of a run. One goroutine writes; what waits
// meanwhile goes into one message, because each is flushed to disk.
type journal struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	objects jetstream.ObjectStore // BucketRuns
	bucket  string                // its name
	run     string
	to      string // where its entries are published
	epoch   string
	in      chan appending
	// taken returns the error of a run that has another owner.
	taken func(context.Context) error

	last  uint64 // sequence of the last message, ours or not
	count int    // messages that we wrote
}

type appending struct {
	line []byte
	done chan error
}

// append returns when the entry is on disk.
func (j *journal) append(ctx context.Context, e entry) error {
	e.Schema = fleet.Schema
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an entry of the journal: %w", err)
	}
	if len(line) > maxEntry {
		if line, err = j.store(ctx, line); err != nil {
			return err
		}
	}
	a := appending{line, make(chan error, 1)}
	select {
	case j.in <- a:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// store puts a large entry into BucketRuns and returns the one that names it.
func (j *journal) store(ctx context.Context, line []byte) ([]byte, error) {
	name := j.run + "/entry-" + newID()
	err := transfer(ctx, int64(len(line)), func(ctx context.Context) error {
		return fleet.PutObject(ctx, j.js, j.bucket, name, bytes.NewReader(line))
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(entry{Schema: fleet.Schema, Object: name})
}

// write is the goroutine that writes, until ctx ends.
func (j *journal) write(ctx context.Context) {
	for {
		var batch []appending
		select {
		case a := <-j.in:
			batch = append(batch, a)
		case <-ctx.Done():
			return
		}
		for size, more := len(batch[0].line), true; more && size < maxBatch; {
			select {
			case a := <-j.in:
				batch, size = append(batch, a), size+len(a.line)
			default:
				more = false
			}
		}
		err := j.publish(ctx, batch)
		for _, a := range batch {
			a.done <- err
		}
	}
}

func (j *journal) publish(ctx context.Context, batch []appending) error {
	lines := make([][]byte, len(batch))
	for i, a := range batch {
		lines[i] = a.line
	}
	data := append(append([]byte{'['}, bytes.Join(lines, []byte{','})...), ']')
	j.count++
	id := fmt.Sprintf("%s/%s/%d", j.run, j.epoch, j.count)
	return persist(ctx, func(ctx context.Context) error {
		ack, err := j.js.Publish(ctx, j.to, data, jetstream.WithMsgID(id), jetstream.WithExpectLastSequencePerSubject(j.last))
		if overtaken(err) {
			seq, lastID, lookErr := j.look(ctx)
			if lookErr != nil {
				return lookErr
			}
			if lastID != id {
				return j.taken(ctx)
			}
			j.last = seq // an earlier try has come through
			return nil
		}
		if err == nil {
			j.last = ack.Sequence
		}
		return err
	})
}

// look returns the sequence of the last message, 0 if there is none, and its id.
func (j *journal) look(ctx context.Context) (seq uint64, id string, err error) {
	m, err := j.stream.GetLastMsgForSubject(ctx, fleet.JournalSubject(j.run))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	return m.Sequence, m.Header.Get(nats.MsgIdHdr), nil
}

// own writes the first entry of a new owner. It repeats that until no append of
// the predecessor came between.
func (j *journal) own(ctx context.Context, m *orchestrate.Meta, repo string) error {
	line, err := json.Marshal([]entry{{Schema: fleet.Schema, Epoch: j.epoch, Meta: m, Repo: repo}})
	if err != nil {
		return fmt.Errorf("encode an entry of the journal: %w", err)
	}
	id := fmt.Sprintf("%s/%s/0", j.run, j.epoch)
	return persist(ctx, func(ctx context.Context) error {
		seq, lastID, err := j.look(ctx)
		if err != nil {
			return err
		}
		if lastID == id {
			j.last = seq
			return nil
		}
		ack, err := j.js.Publish(ctx, j.to, line, jetstream.WithMsgID(id), jetstream.WithExpectLastSequencePerSubject(seq))
		if overtaken(err) {
			return fleet.ErrAgain
		}
		if err == nil {
			j.last = ack.Sequence
		}
		return err
	})
}

// read calls f for each entry up to our own last one.
func (j *journal) read(ctx context.Context, f func(entry) error) error {
	if j.last == 0 {
		return nil
	}
	for from := uint64(1); ; {
		var m *jetstream.RawStreamMsg
		err := persist(ctx, func(ctx context.Context) (err error) {
			m, err = next(ctx, j.stream, fleet.JournalSubject(j.run), from)
			return err
		})
		if m == nil || err != nil {
			return err
		}
		if err := j.each(ctx, m.Data, f); err != nil || m.Sequence >= j.last {
			return err
		}
		from = m.Sequence + 1
	}
}

func (j *journal) each(ctx context.Context, data []byte, f func(entry) error) error {
	var entries []entry
	if err := json.Unmarshal(data, &entries); err != nil {
		return damaged(j.run, err)
	}
	for _, e := range entries {
		if e.Object != "" {
			var whole []byte
			err := transfer(ctx, longEntry, func(ctx context.Context) (err error) {
				whole, err = j.objects.GetBytes(ctx, e.Object)
				return err
			})
			if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
				return err
			}
			if err := json.Unmarshal(whole, &e); err != nil {
				return damaged(j.run, err)
			}
		}
		if e.Schema != fleet.Schema {
			return otherSchema("the journal of the run", e.Schema)
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

func damaged(run string, err error) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: "the journal of the run " + run + " is damaged", Cause: err, Remedy: "start the task anew"}
}

func otherSchema(what string, got int) *bridge.Error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: fmt.Sprintf("%s has version %d of the fleet's messages, and this copilot-bridge knows version %d only", what, got, fleet.Schema),
		Remedy: "use the same version of copilot-bridge on all machines of the fleet"}
}
