package abp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/api/abp"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	if os.Getenv("ABP_TEST_MCP") != "" {
		os.Exit(mcpMain(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

// orderID is the work order's in every test.
const orderID = "11111111-2222-4333-8444-555555555555"

// stage is a real runtime with a model that does as the task says, and a
// workspace.
type stage struct {
	model *demomodel.Server
	opts  app.Options
	ws    string
}

// newStage sets a stage; env is added to the configuration.
func newStage(t *testing.T, env ...string) *stage {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{ws: filepath.Join(root, "work"), model: demomodel.New()}
	if err := s.model.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.model.Close(); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(root, "home")
	for _, dir := range []string{s.ws, home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	environ := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "COPILOT_BRIDGE_HOME=" + filepath.Join(home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(t),
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + s.model.URL(), "COPILOT_BYOK_API_KEY=" + s.model.Key(), "COPILOT_BYOK_MODEL=" + s.model.Model()}, env...)
	cfg, err := config.Load(config.Options{Environ: environ, Dir: root, HomeDir: home})
	if err != nil {
		t.Fatal(err)
	}
	s.opts = app.Options{Config: cfg, Self: self, Version: "test", Environ: environ, UserDir: home, Logger: testLogger(t)}
	return s
}

// file writes a file of the workspace.
func (s *stage) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.ws, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// order is a work order as JSON: the task, in the workspace, and whatever else
// is given by key.
func (s *stage) order(task string, more map[string]any) map[string]any {
	o := map[string]any{"id": orderID, "task": task, "workspace": map[string]any{"root": s.ws, "mode": "pass_through"}}
	maps.Copy(o, more)
	return o
}

func runLine(t *testing.T, id string, order map[string]any) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"t": "run", "id": id, "work_order": order})
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// transcript is what a sidecar wrote.
type transcript struct {
	lines     []string
	envelopes []contract.Envelope
	err       error // of Serve
}

// host is the other side of the pipe: what it is sent can be waited for.
type host struct {
	in  *io.PipeWriter
	out *lineBuffer
}

type lineBuffer struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	wake chan struct{}
}

func (b *lineBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.buf.Write(p)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return n, err
}

func (b *lineBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (h *host) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(h.in, line); err != nil {
		t.Error(err)
	}
}

// await waits until the sidecar has said something.
func (h *host) await(t *testing.T, what string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !strings.Contains(h.out.String(), what) {
		select {
		case <-h.out.wake:
		case <-deadline:
			t.Fatalf("no %s in\n%s", what, h.out)
		}
	}
}

// serve runs a sidecar against talk, which says the host's part.
func (s *stage) serve(t *testing.T, talk func(h *host)) *transcript {
	t.Helper()
	car := app.StartSidecar(t.Context(), s.opts)
	defer func() {
		if err := car.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	return converse(t, func(ctx context.Context, in io.Reader, out io.Writer) error { return car.Serve(ctx, in, out, s.ws) }, talk)
}

func converse(t *testing.T, serve func(ctx context.Context, in io.Reader, out io.Writer) error, talk func(h *host)) *transcript {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, w := io.Pipe()
	h := &host{in: w, out: &lineBuffer{wake: make(chan struct{}, 1)}}
	done := make(chan error, 1)
	go func() { done <- serve(ctx, r, h.out) }()
	talk(h)
	tr := &transcript{err: <-done}
	_ = w.Close() // nobody reads any more
	return tr.read(t, h.out.String())
}

// read checks that every line is an envelope that ABP would read.
func (tr *transcript) read(t *testing.T, text string) *transcript {
	t.Helper()
	for l := range strings.Lines(text) {
		if !strings.HasSuffix(l, "\n") {
			t.Fatalf("an unfinished line: %q", l)
		}
		tr.lines = append(tr.lines, l)
		if strings.HasPrefix(l, `{"t":"pong"`) {
			continue
		}
		e, err := contract.ParseEnvelope([]byte(l))
		if err != nil {
			t.Fatalf("%v in %q", err, l)
		}
		if got := string(contract.AppendEnvelope(nil, e)) + "\n"; got != l {
			t.Fatalf("ABP would write\n%s, not\n%s", got, l)
		}
		tr.envelopes = append(tr.envelopes, e)
	}
	return tr
}

// run does one work order.
func (s *stage) run(t *testing.T, order map[string]any) *transcript {
	t.Helper()
	return s.serve(t, func(h *host) { h.send(t, runLine(t, "0b5f6a34-52a5-4f0c-9a1e-6d1d3a1c9f10", order)) })
}

// do runs an order and returns its receipt, which must match the events.
func (s *stage) do(t *testing.T, order map[string]any) *contract.Receipt {
	t.Helper()
	return s.run(t, order).receipt(t)
}

// receipt returns the receipt and checks the order of the envelopes and that
// the receipt is whole.
func (tr *transcript) receipt(t *testing.T) *contract.Receipt {
	t.Helper()
	if len(tr.envelopes) < 3 {
		t.Fatalf("only %q (%v)", tr.lines, tr.err)
	}
	if _, ok := tr.envelopes[0].(*contract.Hello); !ok {
		t.Fatalf("the first line is %s", tr.lines[0])
	}
	last := len(tr.envelopes) - 1
	final, ok := tr.envelopes[last].(*contract.Final)
	if !ok {
		t.Fatalf("the last line is %s", tr.lines[len(tr.lines)-1])
	}
	r := &final.Receipt
	if len(r.Trace) != last-1 {
		t.Errorf("%d events were told and %d are in the receipt", last-1, len(r.Trace))
	}
	for i, e := range tr.envelopes[1:last] {
		h, ok := e.(*contract.Happened)
		if !ok {
			t.Fatalf("%T between hello and final", e)
		}
		if h.RefID != final.RefID {
			t.Errorf("event of %q in a run of %q", h.RefID, final.RefID)
		}
		if i > 0 && !h.Event.At.Go().After(r.Trace[i-1].At.Go()) {
			t.Errorf("events %d and %d share a time", i-1, i)
		}
	}
	if n := len(r.Trace); n < 2 || r.Trace[0].Kind != contract.RunStarted || r.Trace[n-1].Kind != contract.RunCompleted {
		t.Errorf("the trace does not go from run_started to run_completed")
	}
	if r.SHA256 == nil || *r.SHA256 != r.Hash() {
		t.Error("the hash is wrong")
	}
	if r.Backend.ID != abp.BackendID || r.Meta.ContractVersion != contract.Version || string(r.Meta.WorkOrderID) != orderID {
		t.Errorf("%+v %+v", r.Backend, r.Meta)
	}
	if r.Meta.FinishedAt.Go().Before(r.Trace[len(r.Trace)-1].At.Go()) || r.Meta.StartedAt.Go().After(r.Trace[0].At.Go()) {
		t.Error("events lie outside of the run")
	}
	return r
}

// fatal returns the fatal envelope that must be the end.
func (tr *transcript) fatal(t *testing.T) *contract.Fatal {
	t.Helper()
	f, ok := tr.envelopes[len(tr.envelopes)-1].(*contract.Fatal)
	if !ok || f.Code == nil || tr.err == nil {
		t.Fatalf("no fatal, but %q (%v)", tr.lines, tr.err)
	}
	return f
}

// of lists the events of a kind.
func of(r *contract.Receipt, k contract.Kind) (out []contract.Event) {
	for _, e := range r.Trace {
		if e.Kind == k {
			out = append(out, e)
		}
	}
	return out
}

func warned(r *contract.Receipt, text string) bool {
	for _, e := range of(r, contract.Warning) {
		if strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

func script(lines ...string) string { return "rehearsal: " + strings.Join(lines, "\nrehearsal: ") }

func tool(name string, args map[string]any) string {
	b, err := json.Marshal(args)
	if err != nil {
		return err.Error()
	}
	return "tool " + name + " " + string(b)
}
