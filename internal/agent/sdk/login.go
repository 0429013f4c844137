package sdk

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// logins watches the user's login, which other programs change. A runtime keeps
// the login that it has found, so that it has to be replaced then.
type logins struct {
	file string // "" if no login is used

	mu      sync.Mutex
	size    int64
	changed time.Time
	users   string // what the file says of logins
	count   int    // of changes
}

// newLogins watches the file in which the runtime notes logins.
func newLogins(o Options) *logins {
	l := &logins{}
	if o.UseLogin && o.Token == "" {
		l.file = filepath.Join(o.Home, "config.json")
		l.look()
		l.count = 0
	}
	return l
}

// look says how often the login has changed. It is cheap as long as the file has
// not been written.
func (l *logins) look() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.file)
	var size int64
	var changed time.Time
	if err == nil {
		size, changed = info.Size(), info.ModTime()
	}
	if size == l.size && changed.Equal(l.changed) {
		return l.count
	}
	text, err := os.ReadFile(l.file)
	if err == nil || os.IsNotExist(err) {
		l.size, l.changed = size, changed
		if users := loginsOf(text); users != l.users {
			l.users = users
			l.count++
		}
	}
	return l.count
}

// loginsOf is the part of the file that is about logins; the runtime keeps other
// things there as well.
func loginsOf(text []byte) string {
	members := map[string]json.RawMessage{}
	_ = json.Unmarshal(WithoutComments(text), &members) // one that is not JSON has no logins
	return string(members["lastLoggedInUser"]) + string(members["loggedInUsers"]) + string(members["authTokens"])
}

// WithoutComments removes the comment lines that the runtime writes into its JSON
// files.
func WithoutComments(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) {
			out = append(out, line...)
		}
	}
	return out
}

// Logins counts the changes of the user's login. Runtimes that have an earlier
// one are retired, and so are those whose login was refused: that the user has
// logged in again does not show where a keychain has the login.
func (a *Agent) Logins() int {
	if a.logins.file == "" {
		return 0
	}
	n := a.logins.look()
	a.mu.Lock()
	changed := n != a.loginsSeen
	a.loginsSeen = n
	hosts := slices.Concat(slices.Collect(maps.Values(a.hosts))...)
	a.mu.Unlock()
	for _, h := range hosts {
		if p := h.present.Load(); p != nil && (changed || p.loginRefused.Load()) {
			h.retire(p)
		}
	}
	return n
}
