package httpserver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// logins lets a browser in that has shown the token once. The cookie is signed with
// a key of this process and holds no secret; it ends with the process. Other
// programs on this machine can see it, because cookies do not know ports: where the
// system tells the user of a connection, it counts for that user alone.
type logins struct {
	key  [sha256.Size]byte
	peer peerFunc
}

const (
	loginCookie = "copilot-bridge-login"
	loginTime   = 12 * time.Hour
	maxToken    = 8 << 10
)

func newLogins(peer peerFunc) *logins {
	l := &logins{peer: peer}
	_, _ = rand.Read(l.key[:]) // it never fails
	return l
}

// value is the cookie for a user of this machine, until a time.
func (l *logins) value(r *http.Request, until int64) string {
	user := -1 // not known
	if c := connOf(r); c != nil {
		if uid, err := l.peer(c.Conn); err == nil {
			user = uid
		}
	}
	h := hmac.New(sha256.New, l.key[:])
	_, _ = h.Write([]byte(strconv.FormatInt(until, 10) + " " + strconv.Itoa(user))) // it never fails
	return strconv.FormatInt(until, 10) + "." + hex.EncodeToString(h.Sum(nil))
}

// admits reports whether a request comes from a page that a browser with the cookie
// has loaded, or loads one. It is for what the first page uses.
func (l *logins) admits(r *http.Request) bool {
	c, err := r.Cookie(loginCookie)
	if err != nil || !fromPage(r) || r.URL.Path != "/" && r.URL.Path != "/healthz" && r.URL.Path != "/metrics" && !strings.HasPrefix(r.URL.Path, "/v1/") {
		return false
	}
	digits, _, _ := strings.Cut(c.Value, ".")
	until, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && time.Now().Unix() < until && hmac.Equal([]byte(c.Value), []byte(l.value(r, until)))
}

// fromPage says that a request that changes something comes from a page of ours.
// Where these headers are present, the gate has compared them.
func fromPage(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") == "same-origin"
}

// login is POST /login, the form of the first page.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxToken)
	if !fromPage(r) {
		refuse(w, r, forbidden, "Only the form of the first page logs in.")
		return
	}
	if !s.gate.matches(strings.TrimSpace(r.PostFormValue("token"))) {
		s.page.locked(w, r, true)
		return
	}
	http.SetCookie(w, s.logins.cookie(r, s.logins.value(r, time.Now().Add(loginTime).Unix()), int(loginTime/time.Second)))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// logout is POST /logout.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if !fromPage(r) {
		refuse(w, r, forbidden, "Only the first page logs out.")
		return
	}
	http.SetCookie(w, s.logins.cookie(r, "", -1))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (*logins) cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{Name: loginCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: strings.HasPrefix(r.Header.Get("Origin"), "https:")} // through a proxy
}
