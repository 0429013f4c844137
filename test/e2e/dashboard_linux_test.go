package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dashboardClient uses the API of a server, as a page that has logged in does.
type dashboardClient struct {
	t      *testing.T
	url    string
	cookie *http.Cookie
	proof  string
}

// openDashboard logs in with the address that the command prints.
func (k *testHome) openDashboard(server string) *dashboardClient {
	k.t.Helper()
	var out struct{ URL string }
	if err := json.Unmarshal(k.run("dashboard", "--json", server), &out); err != nil {
		k.t.Fatal(err)
	}
	at, code, ok := strings.Cut(out.URL, "/#login=")
	if !ok {
		k.t.Fatalf("the address is %s", out.URL)
	}
	d := &dashboardClient{t: k.t, url: at}
	res := d.send("POST", "/login", `{"code":"`+code+`"}`)
	defer res.Body.Close()
	var v struct{ Proof string }
	if err := json.NewDecoder(res.Body).Decode(&v); res.StatusCode != http.StatusOK || err != nil || len(res.Cookies()) != 1 {
		k.t.Fatal(res.Status, err)
	}
	d.cookie, d.proof = res.Cookies()[0], v.Proof
	return d
}

func (d *dashboardClient) send(method, path, body string) *http.Response {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Origin", d.url)
	r.Header.Set("X-Dashboard-Proof", d.proof)
	r.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/approve/") {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if d.cookie != nil {
		r.AddCookie(d.cookie)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	return res
}

// call is a request of the API; v may be nil.
func (d *dashboardClient) call(method, path, body string, v any) (status int) {
	d.t.Helper()
	res := d.send(method, "/api/v1"+path, body)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && v != nil && res.StatusCode < 300 {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		d.t.Fatalf("%s: %v in %s", path, err, data)
	}
	return res.StatusCode
}

// until asks until something is so.
func (d *dashboardClient) until(what string, so func() bool) {
	d.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !so(); <-tick.C {
		if time.Now().After(end) {
			d.t.Fatalf("%s did not come to be", what)
		}
	}
}

// A session that `run` has left is seen in the dashboard, resumed there, and its question
// answered with a link, once. The login survives a restart of the server.
func TestDashboard(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	serve, at := k.serve("--read-write")
	k.run("run", "--demo", "rehearsal: text hello")
	d := k.openDashboard(strconv.Itoa(serve.Process.Pid))
	if d.url != at {
		t.Errorf("the dashboard is at %s, the server at %s", d.url, at)
	}
	if key, err := os.Stat(filepath.Join(k.home, ".copilot-bridge", "dashboard.key")); err != nil || key.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", key, err)
	}
	type session struct{ ID, State, Door string }
	var list struct{ Sessions []session }
	if d.call("GET", "/sessions?state=past", "", &list); len(list.Sessions) != 1 || list.Sessions[0].Door != "cli" || list.Sessions[0].State != "ended" {
		t.Fatalf("%+v", list)
	}
	id := list.Sessions[0].ID

	watching := d.send("GET", "/api/v1/stream", "") // or nobody could be asked
	defer watching.Body.Close()
	d.until("somebody watches", func() bool {
		_, err := os.Stat(filepath.Join(k.home, ".copilot-bridge", "live", "watched"))
		return err == nil
	})
	said, err := json.Marshal(map[string]string{"text": "rehearsal: tool bash {\"command\":\"npm publish\",\"description\":\"x\"}\nrehearsal: next\nrehearsal: text it is over"})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.call("POST", "/sessions/"+id+"/resume", string(said), nil); got != http.StatusAccepted {
		t.Fatalf("resume: %d", got)
	}
	var open struct {
		Approvals []struct{ ID, Session, Lead string }
	}
	d.until("the question", func() bool { d.call("GET", "/approvals", "", &open); return len(open.Approvals) == 1 })
	if q := open.Approvals[0]; q.Session != id || !strings.Contains(q.Lead, "npm publish") {
		t.Errorf("%+v", q)
	}
	var link struct{ URL string }
	if got := d.call("POST", "/approvals/"+open.Approvals[0].ID+"/link", "{}", &link); got != 200 {
		t.Fatalf("link: %d", got)
	}
	phone := &dashboardClient{t: t, url: at}
	for i, want := range []int{200, 410} {
		res := phone.send("POST", strings.TrimPrefix(link.URL, at), url.Values{"answer": {"deny"}}.Encode())
		if _ = res.Body.Close(); res.StatusCode != want {
			t.Errorf("use %d of the link: %s", i+1, res.Status)
		}
	}
	if audit := k.run("audit", "tail", "--json"); !strings.Contains(string(audit), "This link has been used.") {
		t.Errorf("the audit log lacks the second use:\n%s", audit)
	}
	var all struct {
		Events []struct{ Type, Text, By, Who string }
	}
	d.until("the end of the turn", func() bool {
		d.call("GET", "/sessions/"+id+"/events", "", &all)
		return len(all.Events) > 0 && all.Events[len(all.Events)-1].Type == "end" && strings.Count(typesOf(all.Events), " end") == 2
	})
	if got := typesOf(all.Events); !strings.Contains(got, " question") || !strings.Contains(got, " answered") || !strings.Contains(got, " verdict") {
		t.Errorf("the timeline has%s", got)
	}

	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("serve: %v", err)
	}
	_, again := k.serve()
	if again != at {
		t.Skipf("the port was taken meanwhile: %s", again)
	}
	if got := d.call("GET", "/sessions", "", nil); got != 200 {
		t.Errorf("after a restart: %d", got)
	}
}

func typesOf(events []struct{ Type, Text, By, Who string }) (out string) {
	for _, e := range events {
		out += " " + e.Type
	}
	return out
}

// Of several servers the one of the workspace is meant; elsewhere they are named.
func TestDashboardOfWhichServer(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	_, first := k.serve()
	other := t.TempDir()
	_, second := k.serve("--workspace", other)
	if got := string(k.run("dashboard", "--no-open")); !strings.HasPrefix(got, first+"/#login=") {
		t.Errorf("in the workspace: %s", got)
	}
	if got := string(k.run("dashboard", "--no-open", other)); !strings.HasPrefix(got, second+"/#login=") {
		t.Errorf("by its workspace: %s", got)
	}
	agent := k.command("dashboard", "--no-open") // below a runtime, which an agent works in
	agent.Env = append(agent.Env, "COPILOT_BRIDGE_TREE=x")
	if said, err := agent.CombinedOutput(); err == nil || strings.Contains(string(said), "#login=") || !strings.Contains(string(said), "an agent may have started this") {
		t.Errorf("for an agent: %v %s", err, said)
	}
	k.dir = t.TempDir()
	said, err := k.command("dashboard").CombinedOutput()
	if err == nil || !strings.Contains(string(said), first) || !strings.Contains(string(said), second) {
		t.Errorf("elsewhere: %v %s", err, said)
	}
}
