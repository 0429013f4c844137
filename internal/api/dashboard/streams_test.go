package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// source is an open stream.
type source struct {
	lines  *bufio.Scanner
	last   string // id
	status int
	close  func()
}

func (s *server) follow(t *testing.T, path, last string) *source {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := s.request(t, "GET", "/api/v1"+path, "", "Authorization", "Bearer "+testKey).WithContext(ctx)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 8<<20)
	out := &source{lines: lines, last: last, status: resp.StatusCode}
	out.close = sync.OnceFunc(func() { cancel(); _ = resp.Body.Close() }) // ended by us
	t.Cleanup(out.close)
	return out
}

// next is the next event of a stream, "" at its end.
func (s *source) next() (name, data string) {
	for s.lines.Scan() {
		switch key, value, _ := strings.Cut(s.lines.Text(), ": "); key {
		case "event":
			name = value
		case "id":
			s.last = value
		case "data":
			return name, value
		}
	}
	return "", ""
}

// numbers reads the numbers of turns until one, and what came together with it.
func (s *source) numbers(t *testing.T, until int) (out []int) {
	t.Helper()
	for {
		name, data := s.next()
		if name == "" {
			return out
		}
		var events []timeline.Event
		if err := json.Unmarshal([]byte(data), &events); err != nil || name != "timeline" || len(events) == 0 {
			t.Fatalf("%s %s: %v", name, data, err)
		}
		if want := itoa(events[len(events)-1].ID); s.last != want {
			t.Fatalf("the id is %s, that of the last event %s", s.last, want)
		}
		for _, e := range events {
			if e.Type == timeline.TypeTurn {
				out = append(out, e.N)
			}
		}
		if len(out) > 0 && out[len(out)-1] >= until {
			return out
		}
	}
}

// Over a break and a restart of the server no event is lost, and none comes twice.
func TestStreamGoesOn(t *testing.T) {
	home := t.TempDir()
	s := start(t, home, 0, nil)
	r := startLocal(t, home).open(t, "one", timeline.Running)
	var got []int
	last := ""
	for round := range 4 {
		from := s.follow(t, "/sessions/one/stream", last)
		writing := make(chan struct{})
		go func() {
			defer close(writing)
			for n := range 1000 {
				r.Add(timeline.Event{Type: timeline.TypeTurn, N: round*1000 + n + 1})
			}
		}()
		got = append(got, from.numbers(t, round*1000+700)...)
		last = from.last
		from.close()
		<-writing
		if round == 1 {
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			s = start(t, home, s.port(), nil)
		}
		if got[len(got)-1] < (round+1)*1000 {
			rest := s.follow(t, "/sessions/one/stream?from="+last, "")
			got = append(got, rest.numbers(t, (round+1)*1000)...)
			last = rest.last
			rest.close()
		}
	}
	for i, n := range got {
		if n != i+1 {
			t.Fatalf("event %d is %d", i+1, n)
		}
	}
	if len(got) != 4000 {
		t.Errorf("%d events", len(got))
	}
	for _, path := range []string{"?from=x", "?from=-1"} {
		if bad := s.get(t, "/sessions/one/stream"+path); bad.status != 400 {
			t.Errorf("%s: %d", path, bad.status)
		}
	}
}

// A reader that does not read costs the session nothing, and others neither.
func TestSlowReader(t *testing.T) {
	home := t.TempDir()
	s := start(t, home, 0, nil)
	r := startLocal(t, home).open(t, "one", timeline.Running)
	slow, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	tcp, ok := slow.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T", slow)
	}
	if err := tcp.SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(slow, "GET /api/v1/sessions/one/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", testKey)
	fast := s.follow(t, "/sessions/one/stream", "")
	text := strings.Repeat("x", 32<<10)
	const round = 100 // which the writer can queue
	for n := range 3 * round {
		r.Add(timeline.Event{Type: timeline.TypeTurn, N: n + 1, Text: text})
		if n%round == round-1 {
			if got := fast.numbers(t, n+1); len(got) != round {
				t.Fatalf("%d events", len(got))
			}
		}
	}
	began := time.Now()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it held the end of the server up for %s", took)
	}
}

// The overall stream is the whole state at each change, for fifty readers at once. More
// than 64 are refused. Meanwhile the home is watched.
func TestStateStream(t *testing.T) {
	home := t.TempDir()
	s := start(t, home, 0, nil)
	if live.Watched(home) {
		t.Error("watched before")
	}
	var all []*source
	for range 50 {
		all = append(all, s.follow(t, "/stream", ""))
	}
	read := func(from *source, so func(state) bool) {
		t.Helper()
		for {
			name, data := from.next()
			var v state
			if err := json.Unmarshal([]byte(data), &v); err != nil || name != "state" || v.At.IsZero() || v.Runs == nil {
				t.Fatalf("%s %s: %v", name, data, err)
			}
			if so(v) {
				return
			}
		}
	}
	for _, from := range all {
		read(from, func(v state) bool { return len(v.Sessions) == 0 && v.Sessions != nil && v.Approvals != nil })
	}
	if !live.Watched(home) {
		t.Error("not watched")
	}
	p := startLocal(t, home)
	r := p.open(t, "one", timeline.Running)
	for _, from := range all {
		read(from, func(v state) bool { return len(v.Sessions) == 1 && v.Sessions[0].ID == "one" })
	}
	q, err := p.Open(live.Question{Session: "one", Lead: "Copilot wants to run rm", Answers: []string{live.Once, live.Deny}})
	if err != nil {
		t.Fatal(err)
	}
	read(all[0], func(v state) bool { return len(v.Approvals) == 1 && v.Approvals[0].Lead == "Copilot wants to run rm" })
	q.Close()
	read(all[0], func(v state) bool { return len(v.Approvals) == 0 })
	r.Change(func(s *timeline.Summary) { s.State = timeline.Ended })
	read(all[0], func(v state) bool { return len(v.Sessions) == 0 })
	for range maxStreams - len(all) {
		all = append(all, s.follow(t, "/stream", ""))
	}
	if got := s.get(t, "/stream"); got.status != 429 || got.errorCode() != "busy" {
		t.Errorf("one too many: %d %s", got.status, got.body)
	}
	all[0].close()
	eventually(t, "a free place", func() bool {
		s.api.watcher.mu.Lock()
		defer s.api.watcher.mu.Unlock()
		return s.api.watcher.streams < maxStreams
	})
	if last := s.follow(t, "/stream", ""); last.status != 200 {
		t.Errorf("after one has left: %d", last.status)
	}
	// All of them end when the server begins to stop.
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if name, _ := all[1].next(); name == "state" {
		all[1].next()
	}
}
