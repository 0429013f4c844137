package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
)

// usedReport is what usage writes as JSON.
type usedReport struct {
	Since string
	Rows  []struct {
		Day, Session, Door, Model, Title string
		Turns                            int
		Premium                          float64 `json:"premium_requests"`
		Credits                          float64 `json:"ai_credits"`
	}
	Total struct {
		Turns, Requests int
		Premium         float64 `json:"premium_requests"`
		Credits         float64 `json:"ai_credits"`
	}
}

func (k *testHome) usage(flags ...string) (r usedReport) {
	k.t.Helper()
	if err := json.Unmarshal(k.run(append([]string{"usage", "--json"}, flags...)...), &r); err != nil {
		k.t.Fatal(err)
	}
	return r
}

// What usage shows is what GitHub has counted: over runs, chats and agents of
// serve, and a chat that its client broke off. Starting serve costs nothing.
func TestUsageIsWhatGitHubCounts(t *testing.T) {
	t.Parallel()
	k, s := newGitHubHome(t)
	models := githubtest.UsualModels()
	for i, n := range []float64{1, 0.25, 3} {
		models[i].Multiplier = n
	}
	s.SetModels(models...)
	s.SetCredits(0.5)
	if out := string(k.run("usage")); !regexp.MustCompile(`^nothing was used since 20\d\d-\d\d-\d\d\n$`).MatchString(out) {
		t.Errorf("%q", out)
	}
	cmd := k.command("run", "--model", "gpt-5", helloTask)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), " · 1 premium request · 1 AI credit\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if out := string(k.run("run", "--json", "--model", "claude-sonnet-4.5", "rehearsal: text hello")); !strings.Contains(out, `"premium_requests":3`) {
		t.Error(out)
	}

	process, url := k.listen("--read-write")
	post := func(ctx context.Context, path, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"gpt-5-codex","messages":[{"role":"user","content":"rehearsal: text one"}]}`},
		{"/v1/messages", `{"model":"gpt-5-codex","max_tokens":100,"messages":[{"role":"user","content":"rehearsal: text two"}]}`},
		{"/v1/chat/completions", `{"model":"agent/gpt-5-codex","messages":[{"role":"user","content":"` + helloTask + `"}]}`},
	} {
		res := post(t.Context(), c.path, c.body)
		text, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err, string(text))
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	res := post(ctx, "/v1/chat/completions", `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"rehearsal: text begun\nrehearsal: delay 30s\nrehearsal: text late"}]}`)
	for lines := bufio.NewScanner(res.Body); lines.Scan() && !strings.Contains(lines.Text(), "begun"); {
	}
	leave()
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Error(err)
	}

	const want = 1 + 3 + 3*0.25 + 1
	all := k.usage()
	if s.Premium() != want || all.Total.Premium != want {
		t.Errorf("GitHub counts %v and usage shows %v, want %v", s.Premium(), all.Total.Premium, want)
	}
	// Credits are told with whole answers, of which there were seven.
	if all.Total.Turns != 6 || all.Total.Credits != 7*0.5 || len(all.Rows) == 0 || all.Rows[0].Day < all.Since {
		t.Errorf("%+v", all)
	}
	for by, premium := range map[string]map[string]float64{
		"model": {"gpt-5": 2, "gpt-5-codex": 0.75, "claude-sonnet-4.5": 3},
		"door":  {"cli": 4, "openai": 1.5, "anthropic": 0.25},
	} {
		rows := k.usage("--by", by, "--since", "7d").Rows
		for _, r := range rows {
			if name := r.Model + r.Door; premium[name] != r.Premium {
				t.Errorf("%s %s: %v, want %v", by, name, r.Premium, premium[name])
			}
		}
		if len(rows) != len(premium) {
			t.Errorf("%+v", rows)
		}
	}
	if table := string(k.run("usage", "--by", "session")); !regexp.MustCompile(`(?s)^SESSION +TURNS +PREMIUM +CREDITS +TOKENS IN +OUT +TITLE\n[0-9a-f]{8} +1 +3 +0.5 .* rehearsal: text hello\n.* chats, which have no session\n.*\ntotal +6 +5.75 +3.5 `).MatchString(table) {
		t.Error(table)
	}
	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	if r := k.usage("--since", tomorrow); r.Total.Turns != 0 || r.Rows == nil {
		t.Errorf("%+v", r)
	}
}
