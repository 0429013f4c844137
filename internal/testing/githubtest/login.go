package githubtest

import (
	"cmp"
	"net/http"
	"strings"
)

// Where a program logs a person in: it asks for a code, which the person enters
// in a browser at VerifyPath, and asks for the token until they have.
const (
	CodePath   = "/login/device/code"
	TokenPath  = "/login/oauth/access_token"
	VerifyPath = "/login/device"
)

// UserCode is what the person enters.
const UserCode = "WDJB-MJHT"

// Errors that GitHub answers a request for the token with. It does so with
// status 200.
const (
	Pending  = "authorization_pending"
	SlowDown = "slow_down" // the program waits five seconds longer from then on
	Denied   = "access_denied"
	Expired  = "expired_token"
)

// Device is what becomes of the next login.
type Device struct {
	Errors  []string // answers before the token; the last one stands if Never is set
	Never   bool     // no token is given
	Expires int      // seconds that the code is good for; 900 if 0
}

// SetDevice scripts logins. Without it the person has entered the code at once.
func (s *Server) SetDevice(d Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.device = d
}

func (s *Server) deviceCode(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{"device_code": "3584d83530557fdd1f46af8289938c8ef79f9dc5", "user_code": UserCode,
		"verification_uri": s.http.URL + VerifyPath, "expires_in": cmp.Or(s.device.Expires, 900), "interval": 0})
}

func (s *Server) deviceToken(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &s.device
	if len(d.Errors) == 0 {
		writeJSON(w, http.StatusOK, map[string]any{"access_token": s.token, "token_type": "bearer", "scope": "gist,read:org,read:user,repo"})
		return
	}
	now := d.Errors[0]
	if len(d.Errors) > 1 || !d.Never {
		d.Errors = d.Errors[1:]
	}
	writeJSON(w, http.StatusOK, map[string]any{"error": now, "error_description": "The device flow says " + strings.ReplaceAll(now, "_", " ") + "."})
}

// open says that a request needs no token.
func open(path string) bool { return path == CodePath || path == TokenPath }
