package dashboard

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

const (
	loginTime = 12 * time.Hour
	codeTime  = 3 * time.Minute

	// proofHeader goes with every change that a page asks for. A cookie does not know
	// ports: a program of an agent's that a browser visits on another port of this
	// machine is sent it. The proof is known to the page that has logged in alone.
	proofHeader = "X-Dashboard-Proof"
)

// NewCode makes a login code for the server at url. It is good once, for a few minutes.
func NewCode(key, url string) string {
	said := strconv.FormatInt(time.Now().UnixMilli(), 10) + "." + rand.Text()
	return said + "." + sign(key, "code", url, said)
}

// sign signs a list of texts with the key. The first one names the purpose.
func sign(key string, texts ...string) string {
	h := hmac.New(sha256.New, []byte(key))
	for _, p := range texts {
		_, _ = h.Write([]byte(strconv.Quote(p))) // it never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// login knows who may use the dashboard. Logins are cookies that are signed with the
// key, so they survive a restart of the server.
type login struct {
	key, token string
	url        func() string
	began      time.Time // codes from before are refused: whether they were used is not known any more

	mu    sync.Mutex
	used  map[string]time.Time // codes that were used, until they would have ended
	wrong map[string]*attempts // by where they came from
}

// attempts are those that failed since a time.
type attempts struct {
	since time.Time
	n     int
}

// The bounds on wrong attempts from one place, and on the places that are known.
const (
	maxWrong    = 10
	wrongWithin = time.Minute
	maxPlaces   = 1024
)

func newLogin(o Options) *login {
	return &login{key: o.Key, token: o.Token, url: o.URL, began: time.Now().Truncate(time.Millisecond), used: map[string]time.Time{}, wrong: map[string]*attempts{}}
}

// same compares secrets: neither the time nor the length tells anything. An empty
// one is never the same.
func same(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return want != "" && hmac.Equal(a[:], b[:])
}

var (
	notLoggedIn = refuse(http.StatusUnauthorized, "login_required", "You are not logged in to the dashboard.",
		"Run `copilot-bridge dashboard`, which opens it, or send the key in dashboard.key in the bridge's home as \"Authorization: Bearer …\".")
	foreignPage = refuse(http.StatusForbidden, "forbidden", "Only the dashboard's own page may change something with its login.",
		"Programs send the key in dashboard.key as \"Authorization: Bearer …\".")
	noProof = refuse(http.StatusForbidden, "proof_required", "The page does not show that it has logged in by itself.", "Run `copilot-bridge dashboard` to log in anew.")
	notJSON = refuse(http.StatusUnsupportedMediaType, "invalid", "The Content-Type is not application/json.", "Send JSON with Content-Type: application/json.")
)

// admit lets those pass who show the key, the server's token, or the login of a browser.
func (l *login) admit(r *http.Request) error {
	if given := bearer(r.Header); given != "" {
		if err := l.attempt(r, same(given, l.key) || same(given, l.token)); err != nil {
			return err
		}
		return nil
	}
	switch {
	case !l.cookie(r):
		return notLoggedIn
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return nil
	case !fromPage(r):
		return foreignPage
	case !isJSON(r.Header):
		return notJSON
	case !same(r.Header.Get(proofHeader), l.proof(r)):
		return noProof
	}
	return nil
}

// bearer is the secret that a program sends.
func bearer(h http.Header) string {
	if scheme, given, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(given)
	}
	return h.Get("X-Api-Key")
}

// attempt counts wrong attempts and refuses all of a place that had too many.
func (l *login) attempt(r *http.Request, right bool) error {
	from, now := origin(r), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrong) >= maxPlaces {
		for place, a := range l.wrong {
			if now.Sub(a.since) > wrongWithin {
				delete(l.wrong, place)
			}
		}
	}
	a := l.wrong[from]
	switch {
	case a != nil && now.Sub(a.since) > wrongWithin:
		delete(l.wrong, from)
		a = nil
	case a != nil && a.n >= maxWrong, a == nil && len(l.wrong) >= maxPlaces:
		return &refusal{status: http.StatusTooManyRequests, code: "rate_limited", message: "There were too many wrong attempts to log in.",
			remedy: "Wait a minute. Browsers that are logged in are not affected.", retryAfter: wrongWithin}
	}
	if right {
		return nil
	}
	if a == nil {
		a = &attempts{since: now}
		l.wrong[from] = a
	}
	a.n++
	return refuse(http.StatusUnauthorized, "login_required", "The key, token or code is wrong, was used before, or is too old.", notLoggedIn.remedy)
}

// origin is where a request comes from. All of this machine is one place.
func origin(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if ip, bad := netip.ParseAddr(host); err != nil || bad != nil || ip.Unmap().IsLoopback() {
		return "this machine"
	}
	return host
}

// cookieName has the port in it: servers of several bridges on one machine would
// overwrite each other's login.
func (l *login) cookieName() string {
	u, err := url.Parse(l.url())
	if err != nil {
		return "copilot-bridge-login"
	}
	return "copilot-bridge-login-" + u.Port()
}

// value is the cookie until a time, for the user of this machine that has connected.
func (l *login) value(r *http.Request, until int64) string {
	digits := strconv.FormatInt(until, 10)
	return digits + "." + sign(l.key, "cookie", digits, strconv.Itoa(wire.User(r.Context())))
}

// cookie reports whether a browser is logged in.
func (l *login) cookie(r *http.Request) bool {
	c, err := r.Cookie(l.cookieName())
	if err != nil {
		return false
	}
	digits, _, _ := strings.Cut(c.Value, ".")
	until, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && time.Now().Unix() < until && same(c.Value, l.value(r, until))
}

// proof belongs to the cookie of a request, "" without one.
func (l *login) proof(r *http.Request) string {
	c, err := r.Cookie(l.cookieName())
	if err != nil {
		return ""
	}
	return sign(l.key, "proof", c.Value)
}

// fromPage says that a request that changes something comes from a page of ours.
// Where these headers are present, the server in front has compared them.
func fromPage(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") == "same-origin"
}

func isJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// redeem uses a code up.
func (l *login) redeem(code string) bool {
	said, signature, _ := cutLast(code, ".")
	millis, _, _ := strings.Cut(said, ".")
	at, err := strconv.ParseInt(millis, 10, 64)
	made, now := time.UnixMilli(at), time.Now()
	if err != nil || !same(signature, sign(l.key, "code", l.url(), said)) || made.Before(l.began) || now.Sub(made) > codeTime || made.After(now.Add(codeTime)) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, until := range l.used {
		if now.After(until) {
			delete(l.used, c)
		}
	}
	if _, again := l.used[said]; again {
		return false
	}
	l.used[said] = made.Add(codeTime)
	return true
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// postLogin is POST /login: {"code"} of `copilot-bridge dashboard`, or {"token"} of the
// server, give a cookie and {"proof"}.
func (a *API) postLogin(w http.ResponseWriter, r *http.Request) {
	proof, err := a.logIn(w, r)
	if err != nil {
		a.fail(w, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	wire.JSON(w, http.StatusOK, map[string]string{"proof": proof})
}

func (a *API) logIn(w http.ResponseWriter, r *http.Request) (proof string, err error) {
	switch {
	case !fromPage(r):
		return "", refuse(http.StatusForbidden, "forbidden", "Only the dashboard's page logs in.", notLoggedIn.remedy)
	case !isJSON(r.Header):
		return "", notJSON
	}
	given, err := decode[struct {
		Code  string `json:"code"`
		Token string `json:"token"`
	}](w, r)
	if err != nil {
		return "", err
	}
	right := same(strings.TrimSpace(given.Token), a.opts.Token)
	if given.Code != "" {
		right = a.login.redeem(given.Code)
	}
	if err := a.login.attempt(r, right); err != nil {
		return "", err
	}
	value := a.login.value(r, time.Now().Add(loginTime).Unix())
	http.SetCookie(w, a.login.newCookie(r, value, int(loginTime/time.Second)))
	return sign(a.opts.Key, "proof", value), nil
}

// postLogout is POST /logout.
func (a *API) postLogout(w http.ResponseWriter, r *http.Request) {
	if !fromPage(r) {
		a.fail(w, foreignPage)
		return
	}
	http.SetCookie(w, a.login.newCookie(r, "", -1))
	wire.JSON(w, http.StatusOK, none{})
}

func (l *login) newCookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{Name: l.cookieName(), Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: strings.HasPrefix(r.Header.Get("Origin"), "https:")} // through a proxy
}

// seconds is a duration for a header.
func seconds(d time.Duration) string {
	return strconv.Itoa(cmp.Or(int(math.Ceil(d.Seconds())), 1))
}
