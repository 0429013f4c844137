package traces

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	queueMost = 4096 // spans that may wait; more are dropped, and counted
	batchMost = 512
	batchEach = time.Second // how long a span waits for others
	attempts  = 4           // of one batch
	retryMost = 5 * time.Second
	closeMost = 2500 * time.Millisecond // what the end of the program may cost
)

// exporter sends finished spans to the collector: OTLP over HTTP, in protobuf.
// One goroutine sends; it lives until close.
type exporter struct {
	settings settings
	version  string
	logger   *slog.Logger
	client   *http.Client
	pause    time.Duration // before the second attempt; it doubles
	full     chan struct{} // holds a token if a batch is complete
	stop     chan struct{} // closed by close
	stopOnce sync.Once
	ctx      context.Context // of requests; ends with the last chance
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	queue   []*Span
	closed  bool
	dropped int64
	told    bool // of the first drop
}

func newExporter(s settings, version string, logger *slog.Logger) *exporter {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &exporter{settings: s, version: version, logger: logger, pause: 500 * time.Millisecond,
		full: make(chan struct{}, 1), stop: make(chan struct{}), ctx: ctx, cancel: cancel, ended: make(chan struct{}),
		client: &http.Client{
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
			Timeout:   s.timeout,
			// The headers may hold keys, which are for the endpoint alone.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
	go e.run()
	return e
}

// add never waits.
func (e *exporter) add(s *Span) {
	e.mu.Lock()
	room := !e.closed && len(e.queue) < queueMost
	if room {
		e.queue = append(e.queue, s)
	}
	complete := len(e.queue) >= batchMost
	e.mu.Unlock()
	if !room {
		e.drop(1, "too many wait")
	} else if complete {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
}

// drop counts spans that are lost, and says so the first time.
func (e *exporter) drop(n int, why string) {
	e.mu.Lock()
	e.dropped += int64(n)
	first := !e.told
	e.told = true
	e.mu.Unlock()
	if first {
		e.logger.Warn("traces.dropped: spans could not be sent; further ones are only counted", "spans", n, "error", why, "endpoint", e.settings.endpoint)
	}
}

// Dropped is how many spans were lost.
func (t *Tracer) Dropped() int64 {
	if t == nil {
		return 0
	}
	t.exporter.mu.Lock()
	defer t.exporter.mu.Unlock()
	return t.exporter.dropped
}

// close sends what waits and ends the goroutine, after closeMost at the latest.
func (e *exporter) close(ctx context.Context) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.stopOnce.Do(func() { close(e.stop) })
	late := time.NewTimer(closeMost)
	defer late.Stop()
	select {
	case <-e.ended:
	case <-late.C:
	case <-ctx.Done():
	}
	e.cancel()
	<-e.ended // soon: the request has ended with its context
	e.client.CloseIdleConnections()
	if n := len(e.take(queueMost)); n > 0 {
		e.drop(n, "the program has ended")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dropped > 0 {
		e.logger.Info("traces.lost", "spans", e.dropped)
	}
}

func (e *exporter) run() {
	defer close(e.ended)
	tick := time.NewTicker(batchEach)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-e.full:
		case <-e.stop:
		}
		for {
			batch := e.take(batchMost)
			if len(batch) == 0 {
				break
			}
			e.send(batch)
		}
		select {
		case <-e.stop:
			return // nothing is added any more
		default:
		}
	}
}

func (e *exporter) take(most int) []*Span {
	e.mu.Lock()
	defer e.mu.Unlock()
	batch := e.queue[:min(most, len(e.queue))]
	e.queue = e.queue[len(batch):]
	if len(e.queue) == 0 {
		e.queue = nil
	}
	return batch
}

// send sends a batch, if need be several times.
func (e *exporter) send(batch []*Span) {
	body := e.encode(batch)
	pause := e.pause
	for n := 1; ; n++ {
		again, after, err := e.post(body)
		if err == nil {
			return
		}
		if !again || n == attempts || e.ctx.Err() != nil {
			e.drop(len(batch), err.Error())
			return
		}
		wait := time.NewTimer(min(max(pause, after), retryMost))
		select {
		case <-wait.C:
		case <-e.ctx.Done():
		}
		wait.Stop()
		pause *= 2
	}
}

// post sends a body once. again says that another attempt may succeed, after a
// while that the collector may have named.
func (e *exporter) post(body []byte) (again bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.settings.endpoint, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	for name, values := range e.settings.headers {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", serviceName+"/"+e.version)
	resp, err := e.client.Do(req)
	if err != nil {
		return true, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // read as far as it matters
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return false, 0, nil
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return true, time.Duration(min(max(seconds, 0), 60)) * time.Second, fmt.Errorf("the collector answered %d", code)
	default:
		return false, 0, fmt.Errorf("the collector answered %d", code)
	}
}
