package httpserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestPortIsUsedAgain(t *testing.T) {
	ports := &Ports{File: filepath.Join(t.TempDir(), "home", "state.json"), Name: "serve"}
	first := start(t, Options{Ports: ports})
	port := int(boundTo(first.listener).Port())
	if got, err := ports.Load(); err != nil || got != port {
		t.Fatalf("remembered %d, %v; want %d", got, err, port)
	}

	// Taken: another one is picked, and that is remembered from then on.
	second := start(t, Options{Ports: ports})
	other := int(boundTo(second.listener).Port())
	if other == port {
		t.Fatal("two on one port")
	}
	if got, err := ports.Load(); err != nil || got != other {
		t.Errorf("remembered %d, %v; want %d", got, err, other)
	}

	if err := second.finish(t); err != nil {
		t.Fatal(err)
	}
	if third := start(t, Options{Ports: ports}); int(boundTo(third.listener).Port()) != other {
		t.Errorf("picked %s, want port %d", third.URL(), other)
	}
}

func TestChosenPortIsNotRemembered(t *testing.T) {
	ports := &Ports{File: filepath.Join(t.TempDir(), "state.json"), Name: "serve"}
	free := start(t, Options{})
	port := int(boundTo(free.listener).Port())
	if err := free.finish(t); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Port: port, Ports: ports})
	if _, err := os.Stat(ports.File); !os.IsNotExist(err) {
		t.Errorf("there is a state file: %v", err)
	}
}

func TestStateFile(t *testing.T) {
	tests := []struct {
		name, before string
		port         int
		fails        bool
		after        string
	}{
		{"none", "", 0, false, `{"ports":{"serve":7}}`},
		{"another's", `{"ports":{"rpc":5}}`, 0, false, `{"ports":{"rpc":5,"serve":7}}`},
		{"ours", `{"ports":{"serve":5}}`, 5, false, `{"ports":{"serve":7}}`},
		{"with more in it", `{"x":{"y":[1]},"ports":{}}`, 0, false, `{"ports":{"serve":7},"x":{"y":[1]}}`},
		{"a port that is none", `{"ports":{"serve":70000}}`, 0, false, `{"ports":{"serve":7}}`},
		{"ports that are none", `{"x":1,"ports":[]}`, 0, true, `{"ports":{"serve":7},"x":1}`},
		{"null", `null`, 0, false, `{"ports":{"serve":7}}`},
		{"broken", `{"ports":`, 0, true, `{"ports":{"serve":7}}`},
		{"empty", " ", 0, true, `{"ports":{"serve":7}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &Ports{File: filepath.Join(t.TempDir(), "state.json"), Name: "serve"}
			if tt.before != "" {
				if err := os.WriteFile(p.File, []byte(tt.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if port, err := p.Load(); port != tt.port || (err != nil) != tt.fails {
				t.Errorf("loaded %d, %v", port, err)
			}
			if err := p.Save(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			if got := compact(t, p.File); got != tt.after {
				t.Errorf("file %s, want %s", got, tt.after)
			}
		})
	}
}

func TestStateThatCannotBeKept(t *testing.T) {
	// A file where a directory should be.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log journal
	r := start(t, Options{Ports: &Ports{File: filepath.Join(file, "state.json"), Name: "serve"}, Logger: log.logger()})
	if got := r.get(t, "/healthz"); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(log.String(), "another one next time") {
		t.Errorf("log %s", &log)
	}
}

func TestStateRaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	const writers = 12
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			p := &Ports{File: file, Name: fmt.Sprint("n", i)}
			if err := p.Save(t.Context(), 1000+i); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := (&Ports{File: file, Name: "n0"}).Load(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range writers {
		if port, err := (&Ports{File: file, Name: fmt.Sprint("n", i)}).Load(); err != nil || port != 1000+i {
			t.Errorf("n%d: %d, %v", i, port, err)
		}
	}
}

// TestStartsRace: several that start at once on the remembered port get
// different ones, and the file stays whole.
func TestStartsRace(t *testing.T) {
	ports := &Ports{File: filepath.Join(t.TempDir(), "state.json"), Name: "serve"}
	var mu sync.Mutex
	seen := map[string]bool{}
	var servers []*Server
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := Listen(t.Context(), Options{Ports: ports})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[s.URL()] = true
			servers = append(servers, s)
		})
	}
	wg.Wait()
	if len(seen) != 6 {
		t.Errorf("%v", seen)
	}
	port, err := ports.Load()
	if err != nil || !seen[fmt.Sprintf("http://127.0.0.1:%d", port)] {
		t.Errorf("remembered %d, %v of %v", port, err, seen)
	}
	for _, s := range servers {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func compact(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func FuzzStateFile(f *testing.F) {
	for _, seed := range []string{`{"ports":{"serve":1}}`, `{"ports":{"serve":-1}}`, `{`, `[]`, `{"ports":null}`} {
		f.Add([]byte(seed))
	}
	file := filepath.Join(f.TempDir(), "state.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &Ports{File: file, Name: "serve"}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if port, err := p.Load(); port < 0 || port > 65535 || port != 0 && err != nil {
			t.Errorf("loaded %d, %v", port, err)
		}
	})
}
