package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// accountHome is a home of somebody who is not logged in yet, with Copilot's CLI
// and a browser on the PATH. There is no keychain.
type accountHome struct {
	*testHome
	github *githubtest.Server
	host   string
	opened string // a file with the addresses that the browser was opened with
}

func newAccountHome(t *testing.T) *accountHome {
	t.Helper()
	h := &accountHome{testHome: newTestHome(t), github: githubtest.Start(t)}
	h.github.Accept("gho_" + strings.Map(func(r rune) rune {
		if strings.ContainsRune("/-_", r) {
			return -1
		}
		return r
	}, t.Name()) + "0123456789abcdef") // no other test's
	h.host, h.opened = strings.TrimPrefix(h.github.URL(), "https://"), filepath.Join(h.home, "opened")
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte("#!/bin/sh\necho \"$1\" >> "+h.opened+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The CLI unpacks itself, once for all tests.
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(cache, "copilot", "pkg"), filepath.Join(h.home, ".cache", "copilot")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(cache, "copilot", "pkg"), filepath.Join(h.home, ".cache", "copilot", "pkg")); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.github.Env(), "TERM=xterm", "DISPLAY=:0", "PATH="+strings.Join([]string{bin, filepath.Dir(runtimetest.CLIPath(t)), os.Getenv("PATH")}, ":"))
	return h
}

// at runs a command in a terminal.
func (h *accountHome) at(args ...string) *terminal {
	h.t.Helper()
	return atTerminalWith(h.t, h.command(args...).Env, h.dir, args...)
}

// says runs a command without a terminal and checks all that it says.
func (h *accountHome) says(want string, code int, input string, args ...string) {
	h.t.Helper()
	cmd := h.command(args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	for from, to := range map[string]string{h.home: "HOME", h.host: "HOST"} {
		out = []byte(strings.ReplaceAll(string(out), from, to))
	}
	if string(out) != want || cmd.ProcessState.ExitCode() != code {
		h.t.Errorf("%q: exit code %d, want %d\n%s\nwant\n%s", args, cmd.ProcessState.ExitCode(), code, out, want)
	}
}

const (
	notLoggedIn = "copilot-bridge: nobody is logged in to GitHub Copilot\n  → run `copilot-bridge login` in a terminal, or set COPILOT_GITHUB_TOKEN\n"
	octocat     = "octocat at HOST\n  plan               individual\n  login              %\n  premium requests   240 of 300 left, reset on 2027-01-01\n"
	plainText   = "in plain text in ~/.copilot/config.json"
)

func octocatKept(where string) string { return strings.ReplaceAll(octocat, "%", where) }

// A person logs in, looks around, works and logs out. The credential is in
// Copilot's own file, where they agreed to have it, and nowhere else.
func TestAccountAtTheTerminal(t *testing.T) {
	t.Parallel()
	h := newAccountHome(t)
	token := h.github.Token()
	h.says(notLoggedIn, 3, "", "status")

	h.github.SetDevice(githubtest.Device{Errors: []string{githubtest.Pending}, Never: true})
	x := h.at("login")
	x.waitFor("This system has no keychain. Keep the login in plain text in ~/.copilot/config.json? [y/N] ")
	x.typeKeys("y\n")
	x.waitFor("Open " + h.github.URL() + githubtest.VerifyPath + " in a browser and enter the code:\r\n  " + githubtest.UserCode)
	x.waitFor("waiting until the code is entered")
	waitUntil(t, "the browser is opened", func() bool {
		text, _ := os.ReadFile(h.opened)
		return string(text) == h.github.URL()+githubtest.VerifyPath+"\n"
	})
	h.github.SetDevice(githubtest.Device{}) // the person has entered it
	x.waitFor("✓ logged in as octocat at " + h.host + ", kept in plain text in ~/.copilot/config.json")
	x.checkExit(0)
	for _, c := range h.github.Calls(githubtest.TokenPath) {
		if !strings.Contains(string(c.Body), "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code") || c.Header.Get("Authorization") != "" {
			t.Errorf("%s %v", c.Body, c.Header)
		}
	}

	h.says(octocatKept(plainText), 0, "", "status")
	var status struct {
		LoggedIn                      bool `json:"logged_in"`
		Login, Host, Plan, Credential string
		Resets                        string `json:"quota_reset_date"`
		Quotas                        []struct {
			Name                   string
			Entitlement, Remaining float64
		}
	}
	if err := json.Unmarshal(h.run("status", "--json"), &status); err != nil {
		t.Fatal(err)
	}
	if q := status.Quotas; !status.LoggedIn || status.Login != "octocat" || status.Host != h.github.URL() || status.Plan != "individual" || status.Credential != "file" ||
		status.Resets != "2027-01-01" || len(q) != 1 || q[0].Name != "premium_interactions" || q[0].Entitlement != 300 || q[0].Remaining != 240 {
		t.Errorf("%+v", status)
	}
	x = h.at("models")
	x.waitFor("GitHub's models, as octocat")
	x.waitFor("claude-sonnet-4.5")
	x.checkExit(0)
	completed := func() string { return string(h.run("__complete", "run", "--model", "gpt-5-")) }
	if out := completed(); !strings.Contains(out, "gpt-5-codex") {
		t.Error(out)
	}

	// While an agent's shell runs, no process holds the credential where others
	// could see it.
	_, events := h.start("run", "--model", "gpt-5", "--yes", `rehearsal: tool bash {"command":"env > seen; until test -e go; do sleep 0.05; done","description":"look"}`)
	seen := filepath.Join(h.dir, "seen")
	waitUntil(t, "the shell runs", func() bool { text, _ := os.ReadFile(seen); return strings.Contains(string(text), h.home) })
	for _, what := range []string{"cmdline", "environ"} {
		files, err := filepath.Glob("/proc/[0-9]*/" + what)
		if err != nil || len(files) < 3 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			if text, _ := os.ReadFile(file); bytes.Contains(text, []byte(token)) {
				t.Errorf("%s holds the credential", file)
			}
		}
	}
	if text, err := os.ReadFile(seen); err != nil || bytes.Contains(text, []byte(token)) {
		t.Errorf("the shell has the credential: %s, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(events); err != nil {
		t.Error(err)
	}
	if got := filesContaining(t, h.home, token); !slices.Equal(got, []string{filepath.Join(h.home, ".copilot", "config.json")}) {
		t.Errorf("the credential is in %q", got)
	}

	x = h.at("logout")
	x.waitFor("✓ octocat is logged out of " + h.host)
	x.checkExit(0)
	if got := filesContaining(t, h.home, token); len(got) > 0 {
		t.Errorf("after logout the credential is in %q", got)
	}
	if out := completed(); strings.Contains(out, "gpt-5-codex") {
		t.Errorf("models of the account that was: %s", out)
	}
	h.says(notLoggedIn, 3, "", "status")
	h.says("nobody was logged in\n", 0, "", "logout")
}

// What goes wrong with a login leaves nobody logged in.
func TestLoginFails(t *testing.T) {
	t.Parallel()
	h := newAccountHome(t)
	const noKeychain = "copilot-bridge: you are not logged in: this system has no keychain to keep the login in\n  → run it with --insecure-storage to keep it in plain text in HOME/.copilot/config.json, or set COPILOT_GITHUB_TOKEN\n"
	const open = "Open https://HOST" + githubtest.VerifyPath + " in a browser and enter the code:\n  " + githubtest.UserCode + "\n"
	const seeHelp = "\n  → see `copilot-bridge login --help`\n"
	const reach = "\n  → see that the host is right and can be reached; HTTPS_PROXY names a proxy, SSL_CERT_FILE a certificate authority of your own\n"
	token := []string{"login", "--with-token", "--insecure-storage"}
	h.says(noKeychain, 3, "", "login")
	h.says(noKeychain, 3, h.github.Token(), "login", "--with-token")
	// Where there might be a keychain that shows only when the login is to be kept.
	usual := h.env
	h.env = append(slices.Clone(usual), "DBUS_SESSION_BUS_ADDRESS=unix:path="+filepath.Join(h.home, "bus"))
	h.says(noKeychain, 3, h.github.Token(), "login", "--with-token")
	h.says(open+noKeychain, 3, "", "login")
	h.says(notLoggedIn, 3, "", "status")
	h.env = usual
	h.says("copilot-bridge: standard input has no token"+seeHelp, 2, "\n", token...)
	h.says("copilot-bridge: standard input is more than a token"+seeHelp, 2, "gho_1\ngho_2\n", token...)
	h.says("copilot-bridge: standard input is not a token: it has characters that no token has"+seeHelp, 2, "gho_\x1b[31m", token...)
	// What is no host, or would get the token unencrypted.
	for _, host := range []string{"a b", "-x", "http://127.0.0.1:1", "ftp://127.0.0.1:1", "https://me@example.ghe.com", "github.com:99999", "example.ghe.com/o", "https://"} {
		h.says("copilot-bridge: "+strconv.Quote(host)+" is not a host; give it like --host example.ghe.com"+seeHelp, 2, "gho_1", append(token, "--host", host)...)
	}
	h.env = append(slices.Clone(usual), "GH_HOST=a b")
	h.says("copilot-bridge: \"a b\" is not a host; give it like --host example.ghe.com"+seeHelp, 2, "gho_1", token...)
	h.env = usual
	h.says("copilot-bridge: the login failed: Unsupported token type. Use a fine-grained personal access token with the \"Copilot Requests\" permission, or an OAuth token from the GitHub Copilot CLI or GitHub CLI app\n  → see that the token is whole and for this host, or log in without --with-token\n", 3, "junk", token...)
	h.says("copilot-bridge: GitHub did not accept the token\n  → see that it has not expired, is for this host, and may use Copilot\n", 3, "gho_expired", token...)
	h.says("copilot-bridge: GitHub Copilot accepts no classic personal access tokens (ghp_…)\n  → make a fine-grained one with the permission “Copilot Requests”, or log in without --with-token\n", 3, "ghp_classic", token...)
	h.says("copilot-bridge: GitHub cannot be reached: request failed: error sending request for url (https://127.0.0.1:1/copilot_internal/user)"+reach, 3, "gho_1", append(token, "--host", "127.0.0.1:1")...)
	h.says("copilot-bridge: https://127.0.0.1:1 cannot be reached: request failed: error sending request for url (https://127.0.0.1:1/login/device/code)"+reach, 3, "", "login", "--insecure-storage", "--host", "127.0.0.1:1")
	// Copilot's CLI takes no notice of a refusal, but the code's time ends.
	h.github.SetDevice(githubtest.Device{Errors: []string{githubtest.Pending, githubtest.Denied, githubtest.Expired}, Never: true, Expires: 1})
	h.says(open+"copilot-bridge: the login was denied, or the code expired before it was entered\n  → run `copilot-bridge login` again\n", 3, "", "login", "--insecure-storage")
	// What a host says reaches the terminal without what could control it.
	h.github.Always(githubtest.CodePath, githubtest.Answer{Status: 200, Body: `{"device_code":"d","user_code":"AB\u001b[31mCD","verification_uri":"https://x/\u202ey","expires_in":1,"interval":1}`})
	h.says("Open https://x/\\u202ey in a browser and enter the code:\n  AB\\x1b[31mCD\ncopilot-bridge: the login was denied, or the code expired before it was entered\n  → run `copilot-bridge login` again\n", 3, "", "login", "--insecure-storage")
	h.github.Always(githubtest.CodePath, githubtest.Answer{})
	x := h.at("login", "--with-token")
	x.waitFor("--with-token reads the token from standard input, and a terminal would show it; use: copilot-bridge login --with-token < FILE")
	x.checkExit(2)
	x = h.at("login")
	x.waitFor("[y/N] ")
	x.typeKeys("n\n")
	x.waitFor("you are not logged in: this system has no keychain")
	x.checkExit(3)
	h.github.SetDevice(githubtest.Device{Errors: []string{githubtest.Pending}, Never: true})
	x = h.at("login", "--insecure-storage")
	x.waitFor(githubtest.UserCode)
	x.typeKeys(ctrC)
	x.checkExit(130)
	h.says(notLoggedIn, 3, "", "status")
	// The demo model still answers: there is no trace of an account.
	if out := string(h.run("models")); !strings.Contains(out, "rehearsal-1") {
		t.Error(out)
	}
	h.env[slices.IndexFunc(h.env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })] = "PATH=" + os.Getenv("PATH")
	h.says("copilot-bridge: logging in with a code needs Copilot's CLI, which is not installed\n  → run `copilot-bridge setup --acp`, which installs it (190 MB), or log in with --with-token\n", 3, "", "login", "--insecure-storage")
}

// A token is taken from standard input. Other tokens come before the login, and
// so does a provider; the commands say so.
func TestLoginWithAToken(t *testing.T) {
	t.Parallel()
	h := newAccountHome(t)
	in, kept := h.github.Token()+"\n", plainText
	h.says("✓ logged in as octocat at HOST, kept "+kept+"\n", 0, in, "login", "--with-token", "--insecure-storage")
	if text, err := os.ReadFile(filepath.Join(h.home, ".copilot", "settings.json")); err != nil || strings.Contains(string(text), "storeTokenPlaintext") {
		t.Errorf("the settings of Copilot: %s, %v", text, err)
	}
	h.says(octocatKept(kept), 0, "", "status")
	cmd := h.command("login", "--with-token", "--insecure-storage", "--log-level", "debug")
	cmd.Stdin = strings.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte(h.github.Token())) {
		t.Errorf("%v\n%s", err, out)
	}
	if got := filesContaining(t, h.home, h.github.Token()); !slices.Equal(got, []string{filepath.Join(h.home, ".copilot", "config.json")}) {
		t.Errorf("the credential is in %q", got)
	}
	usual := h.env
	h.env = append(slices.Clone(usual), "GITHUB_TOKEN="+h.github.Token())
	h.says(octocatKept("by the variable GITHUB_TOKEN"), 0, "", "status")
	h.env = append(slices.Clone(usual), "COPILOT_GITHUB_TOKEN="+h.github.Token())
	h.says(octocatKept("by COPILOT_GITHUB_TOKEN (environment)"), 0, "", "status")
	h.says("✓ logged in as octocat at HOST, kept "+kept+"\n! COPILOT_GITHUB_TOKEN is set and comes before this login; unset it to use the login\n", 0, in, "login", "--with-token", "--insecure-storage")
	m := provider(t)
	h.env = append(slices.Clone(usual), "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+m.URL(), "COPILOT_BYOK_MODEL="+m.Model(), "COPILOT_BYOK_API_KEY="+m.Key())
	h.says(octocatKept(kept)+"! the account is not used: openai at "+m.URL()+" answers, as the settings say\n", 0, "", "status")
	h.env = append(slices.Clone(usual), "COPILOT_GITHUB_TOKEN="+h.github.Token())
	h.says("✓ octocat is logged out of HOST\n! an account is still used: octocat at HOST, by COPILOT_GITHUB_TOKEN (environment)\n", 0, "", "logout")
	// The keychain has lost the login that Copilot's file speaks of.
	h.env = usual
	if err := os.WriteFile(filepath.Join(h.home, ".copilot", "config.json"), []byte(`{"loggedInUsers":[{"host":"https://github.com","login":"octo"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h.says(notLoggedIn, 3, "", "status")
	h.says("✓ octo is logged out of github.com\n", 0, "", "logout")
	h.says("nobody was logged in\n", 0, "", "logout")
	h.env = append(slices.Clone(usual), "GITHUB_TOKEN=gho_refused")
	h.says("copilot-bridge: no login is accepted: Failed to fetch PAT user login (401): GitHub returned: Bad credentials\n  → run `copilot-bridge login` in a terminal, or set COPILOT_GITHUB_TOKEN to a token that may use Copilot\n", 3, "", "status")
}

// The guide's commands work as they stand, but for the keychain, which is
// missing here, and the host.
func TestAccountGuide(t *testing.T) {
	t.Parallel()
	h := newAccountHome(t)
	text, err := os.ReadFile("../../docs/guides/account.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "token.txt"), []byte(h.github.Token()), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^copilot-bridge .*$`).FindAllString(string(text), -1)
	if len(commands) < 7 {
		t.Fatal(commands)
	}
	for _, line := range commands {
		line = strings.NewReplacer("copilot-bridge login", binary+" login --insecure-storage", "copilot-bridge ", binary+" ", "example.ghe.com", h.host).Replace(line)
		cmd := exec.Command("bash", "-c", line)
		cmd.Dir, cmd.Env = h.dir, h.command().Env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// A server takes up a login, the loss of it and another one, without a restart.
func TestServeTakesUpALogin(t *testing.T) {
	t.Parallel()
	h := newAccountHome(t)
	_, url := h.listen()
	s := &providerServer{url: url}
	models := func() string {
		res, err := http.Get(url + "/v1/models")
		if err != nil {
			return err.Error() // between two servers
		}
		text, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			t.Error(err)
		}
		return string(text)
	}
	if out := models(); !strings.Contains(out, "rehearsal-1") {
		t.Fatal(out)
	}
	logIn := func(as string) {
		t.Helper()
		h.github.SetAccount(githubtest.Account{Login: as, Plan: "individual", Entitlement: 300, Remaining: 240, ResetDate: "2027-01-01"})
		h.says("✓ logged in as "+as+" at HOST, kept "+plainText+"\n", 0, h.github.Token(), "login", "--with-token", "--insecure-storage")
	}
	answers := func() {
		t.Helper()
		for _, model := range []string{"gpt-5", "agent/gpt-5"} {
			if status, _, body := s.say(t, "/v1/chat/completions", model, "rehearsal: text from GitHub", ""); status != http.StatusOK || !strings.Contains(body, "from GitHub") {
				t.Errorf("%s: %d %s", model, status, body)
			}
		}
	}
	logIn("octocat")
	waitUntil(t, "the account's models are listed", func() bool { return strings.Contains(models(), `"gpt-5-codex"`) })
	answers()
	s.waitHealth(t, "ok", "", http.StatusOK)

	h.run("logout")
	s.waitHealth(t, "unavailable", "logged in", http.StatusServiceUnavailable)
	if status, _, body := s.say(t, "/v1/chat/completions", "gpt-5", "rehearsal: text from GitHub", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "copilot-bridge login") {
		t.Errorf("after logout: %d %s", status, body)
	}
	if out := models(); strings.Contains(out, "gpt-5") {
		t.Errorf("after logout: %s", out)
	}

	h.github.Accept(h.github.Token() + "2")
	h.github.SetModels(githubtest.Model{ID: "gpt-5", Name: "GPT-5", Vendor: "V", Endpoint: githubtest.ChatPath, Context: 64000, Prompt: 60000, Output: 4000, Policy: "enabled"})
	logIn("hubot")
	answers()
	s.waitHealth(t, "ok", "", http.StatusOK)
	if _, _, out := s.do(t, http.MethodGet, "/healthz", ""); strings.Contains(out, "octocat") {
		t.Errorf("who answers: %s", out)
	}
	if out := models(); !strings.Contains(out, `"gpt-5"`) || strings.Contains(out, "gpt-5-codex") {
		t.Errorf("models of the other account: %s", out)
	}
	for _, c := range h.github.Calls(githubtest.ChatPath) {
		if c.Status != http.StatusOK {
			t.Errorf("a request with the wrong token: %d", c.Status)
		}
	}
}

// What keeps GitHub from saying who is logged in is seldom the login: status says
// what it is, in time, as other commands do.
func TestStatusWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	h := newAccountHome(t)
	h.env = append(h.env, "COPILOT_GITHUB_TOKEN="+h.github.Token())
	const (
		later   = "\n  → try again later; https://www.githubstatus.com tells what is known\n"
		network = "\n  → check the network, the firewall and the proxy (HTTPS_PROXY), and that GH_HOST is right: HOST\n"
		between = "\n  → see that no proxy and no login page of the network answers in GitHub's place; otherwise try again later\n"
	)
	for _, tt := range []struct {
		answer githubtest.Answer
		want   string
	}{
		{githubtest.Answer{Status: 500, Body: "boom"}, "GitHub has a fault of its own (500 Internal Server Error: boom)" + later},
		{githubtest.Answer{Status: 429, Body: "slow"}, "GitHub's rate limit is reached (429 Too Many Requests: slow)\n  → wait a little and try again\n"},
		{githubtest.Answer{Status: 200, Body: "<html>"}, "the GitHub account could not be looked up (Failed to validate SDK token: response validation failed: Invalid Copilot user response: expected value at line 1 column 1)" + between},
		{githubtest.Answer{Status: 200, Body: "{}", Delay: time.Hour}, "GitHub does not answer: HOST can be reached, but has not said whose account it is within 8 seconds" + network},
	} {
		h.github.Always(githubtest.UserPath, tt.answer)
		h.says("copilot-bridge: "+tt.want, 3, "", "status")
	}
	h.says("copilot-bridge: GitHub does not answer: HOST can be reached, but has not said whose account it is within 8 seconds"+network,
		3, h.github.Token(), "login", "--with-token", "--insecure-storage")
	h.github.Always(githubtest.UserPath, githubtest.Answer{})
	h.github.Always(githubtest.ModelsPath, githubtest.Answer{Status: 200, Body: "<html>"})
	h.says("copilot-bridge: GitHub's answer cannot be read: its list of models is none"+between, 3, "", "models")
}
