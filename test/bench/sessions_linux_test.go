package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// BenchmarkLongList measures `run` with 100,000 sessions in the list: at most
// 50 ms more than with none.
func BenchmarkLongList(b *testing.B) {
	const long = 100_000
	m := startModel(b)
	path := binary(b)
	for b.Loop() {
		none, many := b.TempDir(), b.TempDir()
		writeSessions(b, many, long)
		var x, y []time.Duration
		for i := range 21 {
			p, q := runDuration(b, path, none, m), runDuration(b, path, many, m)
			if i > 0 { // skip the first round with a cold disk cache
				x, y = append(x, p), append(y, q)
			}
		}
		p, q := percentile(x, 0.5), percentile(y, 0.5)
		report(fmt.Sprintf("run, %d sessions on the list", long), ms(p), ms(q), "+"+ms(q-p), "≤ +50 ms", q-p <= 50*time.Millisecond)
		b.ReportMetric(float64(q-p)/float64(time.Millisecond), "ms-above-none")
		store := sessionstore.Open(filepath.Join(many, "sessions"))
		began := time.Now()
		entries, err := store.List(b.Context())
		if err != nil || len(entries) != long+21 {
			b.Fatal(len(entries), err)
		}
		reportWithoutTarget(fmt.Sprintf("list of %d sessions", long), "", ms(time.Since(began)), "")
	}
}

// writeSessions writes a session list as the store would, but without a sync
// for each session.
func writeSessions(b *testing.B, home string, n int) {
	b.Helper()
	files := map[string][]sessionstore.Entry{}
	for i := range n {
		sum := sha256.Sum256(fmt.Append(nil, i))
		id := fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
		at := sha256.Sum256([]byte(id))
		h := hex.EncodeToString(at[:2])
		file := filepath.Join(home, "sessions", h[:1], h[1:3]+".json")
		used := time.Now().Add(-time.Duration(i) * time.Second)
		files[file] = append(files[file], sessionstore.Entry{ID: id, Agent: "sdk", Profile: sessionstore.ProfileAgent, State: sessionstore.StateClosed,
			WorkingDirectory: "/home/somebody/src/project", Model: "gpt-5", Title: "fix the failing test of the parser", Turns: 3, InputTokens: 12345, OutputTokens: 678, Created: used, Updated: used})
	}
	for file, entries := range files {
		var lines []string
		for _, e := range entries {
			line, err := e.MarshalJSON()
			if err != nil {
				b.Fatal(err)
			}
			lines = append(lines, string(line))
		}
		data := []byte("{\"version\":1,\"sessions\":[\n" + strings.Join(lines, ",\n") + "\n]}\n")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, 0o600)); err != nil {
			b.Fatal(err)
		}
	}
	if e, err := sessionstore.Open(filepath.Join(home, "sessions")).List(b.Context()); err != nil || len(e) != n {
		b.Fatal(len(e), err)
	}
}

// runDuration is the duration of the command. Pruning is off, so that the list
// keeps its length.
func runDuration(b *testing.B, path, home string, m *demomodel.Server) time.Duration {
	b.Helper()
	cmd := exec.Command(path, "run", "--json", prompt)
	cmd.Dir = b.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "COPILOT_BRIDGE_HOME="+home, "COPILOT_CLI_PATH="+runtimetest.Path(b), "COPILOT_BRIDGE_SESSIONS_KEEP=0",
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+m.URL(), "COPILOT_BYOK_API_KEY="+m.Key(), "COPILOT_BYOK_MODEL="+m.Model())
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return time.Since(began)
}
