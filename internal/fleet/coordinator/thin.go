package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
)

// thin is a bundle for workers that have the same. It is made once, and its file
// goes with the last claim that needs it: a worker that claims and gives up with
// ever other commits must not fill the disk.
type thin struct {
	file   string
	refs   int        // guarded by Coordinator.mu
	mu     sync.Mutex // held while it is made
	made   bool
	bundle fleet.Bundle
}

// sent is an object in a worker's bucket, for as many claims as need it.
type sent struct {
	mu    sync.Mutex // held while it is put or removed
	there bool
	refs  int // guarded by Coordinator.mu
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:26]
}

// send puts what a worker lacks of a commit into its bucket.
func (c *Coordinator) send(ctx context.Context, cl *claim, commit string, have []string) (fleet.Bundle, error) {
	if slices.Contains(have, commit) {
		return fleet.Bundle{}, nil
	}
	if c.repo == nil {
		return fleet.Bundle{}, errors.New("there is no repository")
	}
	have = slices.Sorted(slices.Values(have[:min(len(have), bundle.MaxHave)]))
	name := "begin-" + digest(append(have, commit)...)
	key := cl.worker + "/" + name
	c.mu.Lock()
	t, s := c.bundles[name], c.sent[key]
	if t == nil {
		t = &thin{file: filepath.Join(c.opts.Scratch, name+"-"+newID())}
		c.bundles[name] = t
	}
	if s == nil {
		s = &sent{}
		c.sent[key] = s
	}
	t.refs++
	s.refs++
	cl.object = name // tidy takes both back
	c.mu.Unlock()
	b, err := c.makeOnce(ctx, t, name, commit, have)
	c.mu.Lock()
	if c.bundles[name] != t { // the claim was over before
		c.discard(t)
	}
	c.mu.Unlock()
	if err == nil && b.Size > fleet.MaxBucket {
		err = fleet.FullBucket(fleet.WorkerBucket(cl.worker), nil)
	}
	if err != nil || b.Object == "" {
		return b, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.there {
		return b, nil
	}
	err = putFile(ctx, c.js, fleet.WorkerBucket(cl.worker), name, t.file, b.Size)
	s.there = err == nil
	return b, err
}

func (c *Coordinator) makeOnce(ctx context.Context, t *thin, name, commit string, have []string) (fleet.Bundle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made {
		return t.bundle, nil
	}
	b, err := c.make(ctx, t.file, name, commit, have)
	t.bundle, t.made = b, err == nil
	return b, err
}

// discard removes the file of a bundle. There is none if the worker had everything.
func (c *Coordinator) discard(t *thin) {
	if err := os.Remove(t.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.opts.Logger.Warn("fleet.bundle_not_removed", "error", err)
	}
}

// make writes a bundle. Few are made at a time: each is a git that works hard.
func (c *Coordinator) make(ctx context.Context, file, name, commit string, have []string) (fleet.Bundle, error) {
	select {
	case c.gits <- struct{}{}:
		defer func() { <-c.gits }()
	case <-ctx.Done():
		return fleet.Bundle{}, context.Cause(ctx)
	}
	return bundle.Make(ctx, c.repo, file, name, commit, have)
}

// putFile stores a file in a bucket.
func putFile(ctx context.Context, js jetstream.JetStream, bucket, name, file string, size int64) error {
	return transfer(ctx, size, func(ctx context.Context) error {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		return errors.Join(fleet.PutObject(ctx, js, bucket, name, f), f.Close())
	})
}

// bucket opens a worker's bucket, once.
func (c *Coordinator) bucket(ctx context.Context, worker string) (b jetstream.ObjectStore, err error) {
	c.mu.Lock()
	b = c.buckets[worker]
	c.mu.Unlock()
	if b != nil {
		return b, nil
	}
	err = persist(ctx, func(ctx context.Context) (err error) {
		b, err = c.js.ObjectStore(ctx, fleet.WorkerBucket(worker))
		return err
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.buckets[worker] = b
	c.mu.Unlock()
	return b, nil
}

// tidy removes the objects of a claim that is over. What stays goes by its age.
func (c *Coordinator) tidy(cl *claim, result string) {
	c.mu.Lock()
	name, s := cl.object, c.sent[cl.worker+"/"+cl.object]
	cl.object = ""
	c.mu.Unlock()
	if name == "" && result == "" {
		return
	}
	c.spawn(nil, func() {
		if result != "" {
			c.remove(cl.worker, result)
		}
		if name == "" {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		c.mu.Lock()
		s.refs--
		last := s.refs == 0
		t := c.bundles[name]
		if t.refs--; t.refs == 0 {
			delete(c.bundles, name)
			c.discard(t)
		}
		c.mu.Unlock()
		if last && s.there {
			c.remove(cl.worker, name)
			s.there = false
		}
	})
}

func (c *Coordinator) remove(worker, name string) {
	ctx, cancel := context.WithTimeout(c.ctx, oneTry)
	defer cancel()
	bucket, err := c.bucket(ctx, worker)
	if err == nil {
		err = bucket.Delete(ctx, name)
	}
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) && c.ctx.Err() == nil {
		c.opts.Logger.Warn("fleet.object_not_removed", "worker", worker, "object", name, "error", err)
	}
}

// fetch takes the commit of a result into the repository and returns its bundle.
// An error of CodeDenied says that it is not as it has to be.
func (c *Coordinator) fetch(ctx context.Context, cl *claim, begin string, r fleet.Result) (file string, err error) {
	if !strings.HasSuffix(r.Bundle.Object, cl.id) {
		return "", refusal(bridge.CodeDenied, "the bundle %.80q is not that of the claim", r.Bundle.Object)
	}
	limit := c.opts.Limits.BundleBytes
	if limit <= 0 {
		limit = bundle.MaxResult
	}
	if r.Bundle.Size < 0 || r.Bundle.Size > limit {
		return "", refusal(bridge.CodeDenied, "the bundle has %d bytes, and the limit is %d", r.Bundle.Size, limit)
	}
	bucket, err := c.bucket(ctx, cl.worker)
	if err != nil {
		return "", err
	}
	file = filepath.Join(c.opts.Scratch, "result-"+cl.id)
	err = transfer(ctx, r.Bundle.Size, func(ctx context.Context) error {
		err := getFile(ctx, bucket, r.Bundle, file)
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			return refusal(bridge.CodeDenied, "the bundle %.80q is not there", r.Bundle.Object)
		}
		return err
	})
	if err == nil {
		err = c.receive(ctx, file, r.Bundle, bundle.Expect{Name: r.Bundle.Object, Commit: r.Commit, Parent: begin, MaxBytes: limit})
	}
	return file, err
}

func (c *Coordinator) receive(ctx context.Context, file string, b fleet.Bundle, e bundle.Expect) (err error) {
	select {
	case c.gits <- struct{}{}:
		defer func() { <-c.gits }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return bundle.Receive(ctx, c.repo, f, b, e)
}

// getBound is for an object to be found.
const getBound = 10 * time.Second

// getFile fetches an object that is as large as announced, or less.
func getFile(ctx context.Context, bucket jetstream.ObjectStore, b fleet.Bundle, file string) (err error) {
	info, err := bucket.GetInfo(ctx, b.Object)
	if err != nil {
		return err
	}
	if info.Size != uint64(b.Size) || info.Opts != nil && info.Opts.Link != nil {
		return refusal(bridge.CodeDenied, "the bundle is not the one that was announced")
	}
	// Get follows links, also one that has been put there just now. One to itself has
	// no end.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(getBound, cancel)
	o, err := bucket.Get(ctx, b.Object)
	if err != nil {
		return err
	}
	late.Stop()
	defer func() { err = errors.Join(err, o.Close()) }()
	out, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(o, b.Size+1))
	return errors.Join(err, out.Close())
}

// keep puts a commit on the run's record, as a bundle for clones that have what
// the others had. It is done once.
func (c *Coordinator) keep(ctx context.Context, commit string, have []string) error {
	if commit == "" || c.repo == nil || c.isKept(commit) {
		return nil
	}
	file := filepath.Join(c.opts.Scratch, "keep-"+digest(commit))
	b, err := c.make(ctx, file, commit, commit, have)
	if err != nil {
		return fmt.Errorf("keep commit %s: %w", commit, err)
	}
	return c.keepFile(ctx, commit, "", file, b)
}

func (c *Coordinator) isKept(commit string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept[commit]
}

// maxInline bounds a bundle that goes into the journal itself, which is one write.
const maxInline = 256 << 10

// keepFile puts the bundle of a commit on record, and removes the file.
func (c *Coordinator) keepFile(ctx context.Context, name, parent, file string, b fleet.Bundle) error {
	e := commit{Commit: name, Parent: parent, Bundle: b}
	if b.Object != "" {
		defer func() { _ = os.Remove(file) }() // the directory goes with the run
		var err error
		if b.Size <= maxInline {
			e.Data, err = os.ReadFile(file)
		} else {
			e.Stored = c.run + "/" + name
			err = putFile(ctx, c.js, c.stores.names.Of(fleet.BucketRuns), e.Stored, file, b.Size)
		}
		if err != nil {
			return err
		}
	}
	if err := c.put(ctx, entry{Commit: &e}); err != nil {
		return err
	}
	c.mu.Lock()
	c.kept[name] = true
	c.mu.Unlock()
	return nil
}
