package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// timelines are those of a test's home.
func (k *testHome) timelines() (home string, l *timeline.Library) {
	home = filepath.Join(k.home, ".copilot-bridge")
	return home, timeline.OpenLibrary(home)
}

func (k *testHome) events(l *timeline.Library, session string) (out []timeline.Event) {
	k.t.Helper()
	raw, _, err := l.Read(session, 0, 1000)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, r := range raw {
		var e timeline.Event
		if err := json.Unmarshal(r, &e); err != nil {
			k.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// What a session did can be seen afterwards: what was said, called, decided and
// changed, without secrets.
func TestTimelineOfARun(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	const secret = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
	file := filepath.Join(k.dir, "f.txt")
	k.run("run", "--demo", "--yes", "rehearsal: text Let me see.\nrehearsal: tool create {\"path\":\""+file+"\",\"file_text\":\"hello\\n\"}\nrehearsal: next\n"+
		"rehearsal: tool bash {\"command\":\"touch g; echo "+secret+"\",\"description\":\"touch\"}\nrehearsal: next\nrehearsal: text All done.")
	home, l := k.timelines()
	list, err := l.List()
	if err != nil || len(list) != 1 || list[0].State != timeline.Ended || list[0].Door != "cli" || list[0].Turns != 1 || list[0].Usage.InputTokens == 0 || list[0].Dir != k.dir {
		t.Fatalf("%+v, %v", list, err)
	}
	got := k.events(l, list[0].ID)
	var order []string
	for _, e := range got {
		switch e.Type {
		case timeline.TypeText:
			order = append(order, e.Type)
		case timeline.TypeUsage, timeline.TypeNotice, timeline.TypeProgress, timeline.TypeReasoning:
		default:
			order = append(order, e.Type+" "+e.Call)
		}
	}
	order = slices.Compact(order)
	want := "turn |prompt |text|tool call_1|verdict call_1|diff call_1|result call_1|tool call_2|question |answered |verdict call_2|result call_2|text|end |closed "
	if all := strings.Join(order, "|"); all != want {
		t.Errorf("%s\nnot\n%s", all, want)
	}
	for _, e := range got {
		switch {
		case e.Type == timeline.TypeDiff && (e.Path != "f.txt" || e.Change != "add" || !strings.Contains(e.Diff, "\n+hello\n")):
			t.Errorf("%+v", e)
		case e.Type == timeline.TypeVerdict && (e.Verdict != "allow" || e.Reason == "" || e.Rule == ""),
			e.Type == timeline.TypeVerdict && e.Call == "call_2" && (e.By != "person" || e.Who != "--yes"),
			e.Type == timeline.TypeResult && !*e.OK:
			t.Errorf("%+v", e)
		}
	}
	for _, name := range []string{list[0].ID + ".json", list[0].ID + ".jsonl"} {
		data, err := os.ReadFile(filepath.Join(timeline.Dir(home), name))
		if err != nil || strings.Contains(string(data), secret) {
			t.Errorf("%s holds a secret, or %v", name, err)
		}
	}
	if left, err := os.ReadDir(live.Dir(home)); err != nil || len(left) != 0 {
		t.Error(left, err)
	}
}

// Another process sees a session while it works, and stops it. One that is
// killed is interrupted.
func TestSessionsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	home, l := k.timelines()
	running := func() (found timeline.Summary) {
		waitUntil(t, "a running turn", func() bool {
			list, err := l.List()
			i := slices.IndexFunc(list, func(s timeline.Summary) bool { return s.State == timeline.Running })
			if err != nil || i < 0 {
				return false
			}
			found = list[i]
			return len(k.events(l, found.ID)) > 2
		})
		return found
	}
	first, _ := k.start("run", "--demo", "--json", "rehearsal: text One moment.\nrehearsal: delay 10m\nrehearsal: text never")
	s := running()
	if err := live.Send(t.Context(), home, s.Process, live.Order{Kind: live.OrderStop, Session: s.ID, By: "test"}); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // a turn that was stopped is a failure
	if sum, _, err := l.Get(s.ID); err != nil || sum.State != timeline.Ended {
		t.Errorf("%+v, %v", sum, err)
	}
	second, _ := k.start("run", "--demo", "--json", "rehearsal: text One moment.\nrehearsal: delay 10m\nrehearsal: text never")
	s = running()
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait() // it was killed
	if sum, _, err := l.Get(s.ID); err != nil || sum.State != timeline.Interrupted {
		t.Errorf("%+v, %v", sum, err)
	}
	if list, err := live.Processes(home); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}
