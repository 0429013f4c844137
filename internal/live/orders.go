package live

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Order asks a process to do something.
type Order struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"` // OrderStop or OrderSend
	Session string `json:"session"`
	Text    string `json:"text,omitempty"` // of a message
	Mode    string `json:"mode,omitempty"` // ModeSteer or ModeQueue
	By      string `json:"by,omitempty"`   // where the person was: dashboard, top, …
}

// The kinds of orders, and the ways in which a message can be sent.
const (
	OrderStop = "stop" // end the session's turn
	OrderSend = "send" // tell the session something

	ModeSteer = "steer" // into the running turn
	ModeQueue = "queue" // after it
)

const (
	// ordersPoll is how often a process looks for orders, and its answer is
	// looked for.
	ordersPoll  = 250 * time.Millisecond
	answersPoll = 50 * time.Millisecond
	// orderLimit bounds how long an order is carried out, and waited for.
	orderLimit = 10 * time.Second
	// settled is how old a directory's time has to be until it tells that nothing
	// was added since: two changes may have one time.
	settled = time.Second

	orderSuffix  = ".json"
	answerSuffix = ".done"
)

// Handle sets what carries out orders. Until then they are refused. The function
// is called concurrently; its context ends after ten seconds and with Close.
func (l *Local) Handle(f func(ctx context.Context, o Order) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handle = f
}

// follow carries out orders until Close.
func (l *Local) follow() {
	tick := time.NewTicker(ordersPoll)
	defer tick.Stop()
	dir := filepath.Join(l.dir, ordersDir)
	var seen time.Time
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
		}
		info, err := os.Stat(dir)
		if err != nil || info.ModTime().Equal(seen) && time.Since(seen) > settled {
			continue
		}
		seen = info.ModTime()
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it is tried again when the directory changes
		}
		for _, e := range entries {
			if id, ok := strings.CutSuffix(e.Name(), orderSuffix); ok && idForm.MatchString(id) {
				l.take(filepath.Join(dir, e.Name()), id)
			}
		}
	}
}

// take carries out the order in a file, on a goroutine of its own so that a
// "stop" does not wait for another order.
func (l *Local) take(file, id string) {
	data, err := durable.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return // its sender has given up
	}
	if rm := os.Remove(file); err != nil || rm != nil {
		return // not twice
	}
	var o Order
	err = json.Unmarshal(data, &o)
	o.ID = id
	l.work.Go(func() {
		if err == nil {
			err = l.carryOut(o)
		}
		// If the answer cannot be written the sender gets its time-out.
		if answer, enc := json.Marshal(result{bridge.AsError(err)}); enc == nil {
			_ = durable.WriteFile(strings.TrimSuffix(file, orderSuffix)+answerSuffix, answer, 0o600)
		}
	})
}

// result is how an order ended.
type result struct {
	Error *bridge.Error `json:"error,omitempty"`
}

func (l *Local) carryOut(o Order) error {
	l.mu.Lock()
	handle := l.handle
	l.mu.Unlock()
	if handle == nil {
		return &bridge.Error{Code: bridge.CodeUnsupported, Message: "this process takes no orders"}
	}
	ctx, cancel := context.WithTimeout(l.ctx, orderLimit)
	defer cancel()
	return handle(ctx, o)
}

// Send gives an order to a process and waits until it is carried out, ten
// seconds at most. The error is that of the other process.
func Send(ctx context.Context, home, process string, o Order) error {
	if !Alive(home, process) {
		return gone(process)
	}
	o.ID = strings.ToLower(rand.Text())
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, orderLimit+2*ordersPoll)
	defer cancel()
	base := filepath.Join(Dir(home), process, ordersDir, o.ID)
	if err := durable.WriteFile(base+orderSuffix, data, 0o600); err != nil {
		return err
	}
	answer, err := await(ctx, home, process, base+answerSuffix)
	// What was not taken by now is not to be carried out later.
	cleanup := slices.DeleteFunc([]error{os.Remove(base + orderSuffix), os.Remove(base + answerSuffix)},
		func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	if o.Kind == OrderStop && bridge.CodeOf(err) == bridge.CodeNotFound {
		return nil // `run` ends with its turn, and takes the answer along
	}
	if err != nil {
		return err
	}
	var r result
	if err := errors.Join(append(cleanup, json.Unmarshal(answer, &r))...); err != nil {
		return err
	}
	if r.Error != nil {
		return r.Error
	}
	return nil
}

// await waits for the file that says how an order ended.
func await(ctx context.Context, home, process, file string) ([]byte, error) {
	tick := time.NewTicker(answersPoll)
	defer tick.Stop()
	for {
		data, err := durable.ReadFile(file)
		if !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
		if !Alive(home, process) {
			return nil, gone(process)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, &bridge.Error{Code: bridge.CodeTimeout, Message: "the process " + process + " has not answered",
				Remedy: "try again; if it stays silent, end the process", Cause: context.Cause(ctx)}
		}
	}
}
