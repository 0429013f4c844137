package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

const chunkBound = 20 * time.Second // for a part of a bundle to come

// store is the worker's bucket. What is asked of it goes on when the connection
// is lost and comes back.
type store struct {
	conn   *fleet.Conn
	bucket string

	mu      sync.Mutex
	objects jetstream.ObjectStore
	stream  jetstream.Stream // that holds them
}

// bind finds the bucket.
func (s *store) bind(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		return nil
	}
	return s.online(ctx, "open the worker's bucket", answerBound, func(ctx context.Context) (err error) {
		if s.objects, err = s.conn.JS.ObjectStore(ctx, s.bucket); err == nil {
			s.stream, err = s.conn.JS.Stream(ctx, "OBJ_"+s.bucket)
		}
		return err
	})
}

// online does something that needs the connection, and again when that was lost.
func (s *store) online(ctx context.Context, what string, bound time.Duration, f func(context.Context) error) error {
	err := fleet.Persist(ctx, bound, func(ctx context.Context) error { return untilLost(ctx, s.conn.NC, f) })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// read returns what an object holds. ctx is for the reading, too.
func (s *store) read(ctx context.Context, name string) (io.Reader, error) {
	if err := s.bind(ctx); err != nil {
		return nil, err
	}
	r := &reader{s: s, ctx: ctx, next: 1}
	err := s.online(ctx, "fetch the bundle", chunkBound, func(ctx context.Context) error {
		info, err := s.objects.GetInfo(ctx, name)
		if err == nil {
			r.chunks, r.subject = info.Chunks, "$O."+s.bucket+".C."+info.NUID
		}
		return err
	})
	return r, err
}

// reader reads an object chunk by chunk. The client's own way needs a consumer,
// for which a worker has no right.
type reader struct {
	s       *store
	ctx     context.Context // of the one call that reads
	subject string
	chunks  uint32 // that are still to come
	next    uint64
	rest    []byte
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.chunks == 0 {
			return 0, io.EOF
		}
		err := r.s.online(r.ctx, "fetch the bundle", chunkBound, func(ctx context.Context) error {
			m, err := r.s.stream.GetMsg(ctx, r.next, jetstream.WithGetMsgSubject(r.subject))
			if err == nil {
				r.rest, r.next = m.Data, m.Sequence+1
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		r.chunks--
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// put sends a file as an object.
func (s *store) put(ctx context.Context, name, file string) error {
	ctx, cancel := context.WithTimeout(ctx, transferBound)
	defer cancel()
	if err := s.bind(ctx); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return s.online(ctx, "send the bundle", fleet.TransferTime(info.Size()), func(ctx context.Context) error {
		in, err := os.Open(file)
		if err != nil {
			return err
		}
		return errors.Join(fleet.PutObject(ctx, s.conn.JS, s.bucket, name, in), in.Close())
	})
}

// remove deletes an object if it is there. The server forgets one that stays
// when it is old.
func (s *store) remove(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), answerBound)
	defer cancel()
	if s.bind(ctx) != nil {
		return
	}
	if _, err := s.objects.GetInfo(ctx, name); err == nil {
		_ = s.objects.Delete(ctx, name)
	}
}
