package dashboard

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testKey = "K3Y-OF-THE-DASHBOARD"
	patient = 10 * time.Second
)

// server is the dashboard behind the server that `serve` puts in front of it.
type server struct {
	*httpserver.Server
	api  *API
	home string
	stop func() error
	log  *programtest.Output
}

// start serves the dashboard of a home at a port, 0 for any.
func start(t *testing.T, home string, port int, change func(*Options)) *server {
	t.Helper()
	s := &server{home: home, log: &programtest.Output{}}
	logger := slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opts := Options{Home: home, Key: testKey, URL: func() string { return s.URL() }, About: func() About { return About{Version: "v1", Workspace: "/w"} }, Logger: logger}
	if change != nil {
		change(&opts)
	}
	s.api = New(opts)
	var err error
	s.Server, err = httpserver.Listen(t.Context(), httpserver.Options{Port: port, Token: opts.Token, Open: s.api.Handlers(), Page: s.api.Index(), LoggedIn: s.api.LoggedIn, Logger: logger,
		Doors: map[string]http.Handler{"GET /v1/models": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	s.stop = sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *server) port() int {
	u, _ := url.Parse(s.URL())
	port, _ := strconv.Atoi(u.Port())
	return port
}

type answer struct {
	status int
	header http.Header
	body   string
}

// errorCode is the code of an answer that is an error.
func (a answer) errorCode() string {
	var v struct{ Error struct{ Code string } }
	_ = json.Unmarshal([]byte(a.body), &v)
	return v.Error.Code
}

// header is made of names and values; "Host" is taken as such.
func (s *server) request(t *testing.T, method, path, body string, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func (s *server) do(t *testing.T, method, path, body string, header ...string) answer {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patient,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(s.request(t, method, path, body, header...))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}
}

// get and post are a program's, with the key.
func (s *server) get(t *testing.T, path string) answer {
	t.Helper()
	return s.do(t, http.MethodGet, "/api/v1"+path, "", "Authorization", "Bearer "+testKey)
}

func (s *server) post(t *testing.T, path, body string) answer {
	t.Helper()
	return s.do(t, http.MethodPost, "/api/v1"+path, body, "Authorization", "Bearer "+testKey, "Content-Type", "application/json")
}

// read is get into v.
func (s *server) read(t *testing.T, path string, v any) {
	t.Helper()
	got := s.get(t, path)
	if got.status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, got.status, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), v); err != nil {
		t.Fatalf("%s: %v in %s", path, err, got.body)
	}
}

// logIn is a browser's, with a code; it returns the cookie and the proof.
func (s *server) logIn(t *testing.T, body string) (cookie, proof string) {
	t.Helper()
	got := s.do(t, http.MethodPost, "/login", body, "Content-Type", "application/json", "Origin", s.URL())
	var v struct{ Proof string }
	if err := json.Unmarshal([]byte(got.body), &v); got.status != http.StatusOK || err != nil || v.Proof == "" {
		t.Fatalf("login: %d %s", got.status, got.body)
	}
	cookie, _, _ = strings.Cut(got.header.Get("Set-Cookie"), ";")
	return cookie, v.Proof
}

// local is a process of the home, with a session that writes a timeline.
type local struct {
	*live.Local
	writer *timeline.Writer
	store  *timeline.Store
	home   string
}

func startLocal(t *testing.T, home string) *local {
	t.Helper()
	l, err := live.Start(home, live.Process{Command: "run", Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	w := timeline.NewWriter(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return &local{l, w, timeline.Open(timeline.Dir(home)), home}
}

// open begins a session; state is what it does.
func (l *local) open(t *testing.T, id string, state timeline.State) *timeline.Recorder {
	t.Helper()
	r := l.writer.Record(l.store, timeline.Summary{ID: id, Process: l.ID(), Door: "run", Profile: bridge.ProfileAgent, Title: "Title of " + id, Dir: "/w", State: state, Started: time.Now(), Changed: time.Now()})
	r.Add(timeline.Event{At: time.Now(), Type: timeline.TypePrompt, Text: "do it"})
	r.Change(func(s *timeline.Summary) { s.State = state })
	eventually(t, "the timeline of "+id, func() bool {
		size, err := l.store.Size(id)
		_, sumErr := l.store.Summary(id)
		return err == nil && size > 0 && sumErr == nil
	})
	return r
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(patient); !so(); <-tick.C {
		if time.Now().After(until) {
			t.Fatalf("%s did not come to be", what)
		}
	}
}
