package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

// watchedHome has the file whose key opens the dashboard of a server that was
// started with it.
func watchedHome(b *testing.B) (home string, env []string) {
	b.Helper()
	home = b.TempDir()
	return home, []string{"HOME=" + home, "COPILOT_BRIDGE_HOME=" + home}
}

// page keeps a stream of the dashboard open until close is called. read counts
// what has come.
func (s *server) page(b *testing.B, home, path string) (read func() int64, closePage func()) {
	b.Helper()
	key, err := os.ReadFile(filepath.Join(home, "dashboard.key"))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/v1"+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	resp, err := s.http.Do(r) //nolint:bodyclose // the function that is returned closes it
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err != nil {
		b.Fatal(path, err)
	}
	var counted sync.Mutex
	var n int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			got, err := resp.Body.Read(buf)
			counted.Lock()
			n += int64(got)
			counted.Unlock()
			if err != nil {
				return // it was closed
			}
		}
	}()
	read = func() int64 {
		counted.Lock()
		defer counted.Unlock()
		return n
	}
	return read, sync.OnceFunc(func() {
		cancel()
		<-done
		_ = resp.Body.Close()
	})
}

// session is the id of the agent's session that is in one of the
// states and was used last.
func (s *server) session(b *testing.B, home string, states ...string) string {
	b.Helper()
	key, err := os.ReadFile(filepath.Join(home, "dashboard.key"))
	if err != nil {
		b.Fatal(err)
	}
	for end, tick := time.After(time.Minute), time.Tick(20*time.Millisecond); ; {
		r, err := http.NewRequest(http.MethodGet, s.url+"/api/v1/sessions?state=live", nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
		resp, err := s.http.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		var list struct {
			Sessions []struct{ ID, Profile, State string } `json:"sessions"`
		}
		if err := errors.Join(err, resp.Body.Close(), json.Unmarshal(body, &list)); err != nil {
			b.Fatalf("%v: %s", err, body)
		}
		for _, one := range list.Sessions {
			if one.Profile == "agent" && slices.Contains(states, one.State) {
				return one.ID
			}
		}
		select {
		case <-tick:
		case <-end:
			b.Fatal("there is no session")
		}
	}
}

// processor is the time that a process has had on processors.
func processor(b *testing.B, pid int) time.Duration {
	b.Helper()
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	if err != nil {
		b.Fatal(err)
	}
	var sum int64
	for _, t := range threads {
		if data, err := os.ReadFile(t); err == nil { // a thread may have ended
			first, _, _ := bytes.Cut(data, []byte(" "))
			ns, _ := strconv.ParseInt(string(first), 10, 64)
			sum += ns
		}
	}
	return time.Duration(sum)
}

// eventful is a model that streams 200 pieces a second for ten seconds.
func eventful(b *testing.B) *demomodel.Server {
	b.Helper()
	m := startModel(b)
	var reply demomodel.Reply
	for i := range 2000 {
		reply = append(reply, demomodel.Chunks(fmt.Sprintf("word%d ", i)), demomodel.Delay(5*time.Millisecond))
	}
	m.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		return reply, bytes.Contains(r.Raw, []byte("many events"))
	})
	return m
}

// BenchmarkWatchedEvents measures what a server spends on showing 200 events a second
// of an agent's turn: its processor time with a page that shows them, less that of
// the same turn without. Both keep the timeline.
func BenchmarkWatchedEvents(b *testing.B) {
	ctx, m := context.Background(), eventful(b)
	home, env := watchedHome(b)
	watched := startServe(b, m, env...)
	for b.Loop() {
		var with, without []float64
		for round := range 6 {
			before, began := processor(b, watched.pid), time.Now()
			failed := make(chan error, 1)
			go func() {
				_, _, err := watched.ask(ctx, "agent/"+m.Model(), message{"user", fmt.Sprintf("many events, round %d", round)})
				failed <- err
			}()
			shown := round%2 == 1
			closePages := func() {}
			if shown {
				_, one := watched.page(b, home, "/stream")
				read, other := watched.page(b, home, "/sessions/"+watched.session(b, home, "running")+"/stream")
				closePages = func() {
					if read() < 10_000 {
						b.Errorf("the page got %d bytes", read())
					}
					one()
					other()
				}
			}
			if err := <-failed; err != nil {
				b.Fatal(err)
			}
			share := float64(processor(b, watched.pid)-before) / float64(time.Since(began)) * 100
			closePages()
			if shown {
				with = append(with, share)
			} else {
				without = append(without, share)
			}
		}
		less := median(with) - median(without)
		report("200 events/s on a page, processor", fmt.Sprintf("%.1f %%", median(without)), fmt.Sprintf("%.1f %%", median(with)), fmt.Sprintf("%+.1f %% of a core", less), "< 3 %", less < 3)
		b.ReportMetric(less, "%-of-a-core")
	}
}

// BenchmarkFiftyPages compares agents' turns while fifty pages show the session with
// turns that nobody watches. The model is as slow as real ones.
func BenchmarkFiftyPages(b *testing.B) {
	ctx, m := context.Background(), slowModel(b)
	home, env := watchedHome(b)
	s := startServe(b, m, env...)
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	b.Cleanup(s.http.CloseIdleConnections)
	talk := []message{{"user", slowly}}
	turn := func(pages int) time.Duration {
		var open []func()
		for range pages {
			_, one := s.page(b, home, "/stream")
			_, other := s.page(b, home, "/sessions/"+s.session(b, home, "running", "idle")+"/stream")
			open = append(open, one, other)
		}
		began := time.Now()
		_, text, err := s.ask(ctx, "agent/"+m.Model(), talk...)
		if err != nil {
			b.Fatal(err)
		}
		took := time.Since(began)
		talk = append(talk, message{"assistant", text}, message{"user", slowly})
		for _, end := range open {
			end()
		}
		return took
	}
	for b.Loop() {
		turn(0)
		var with, without []float64
		for range 9 {
			without = append(without, turn(0).Seconds())
			with = append(with, turn(50).Seconds())
		}
		ratio := median(with) / median(without)
		report("turn with fifty pages", fmt.Sprintf("%.2f s", median(without)), fmt.Sprintf("%.2f s", median(with)), fmt.Sprintf("%+.1f %%", (ratio-1)*100), "< +2 %", ratio < 1.02)
		b.ReportMetric(ratio, "times-unwatched")
	}
}
