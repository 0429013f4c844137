package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// TrustIn is the record of the files that the user trusts, in a bridge's home.
func TrustIn(home string) Trust { return Trust{Path: filepath.Join(home, TrustFile)} }

// LoadTrusted reads the policy file of a workspace, nil if it has none, and says
// whether the user trusts it.
func LoadTrusted(home, root string) (file *File, trusted bool, err error) {
	if file, err = LoadWorkspace(root); err != nil || file == nil {
		return nil, false, err
	}
	trusted, err = TrustIn(home).Trusted(file.Path, file.Data)
	return file, trusted, err
}

// InForce is the policy that the files make. It does not change.
type InForce struct {
	Policy *Policy
	// Sources are the files in force, as the record calls them, and Untrusted
	// that of the workspace, if only its restrictions count.
	Sources   []string
	Untrusted string
	// SHA256 is the hash of the files' names, bytes and trust.
	SHA256 string
	// Err says what is wrong with the files. Policy denies everything then.
	Err error
	// Change says what has changed since the policy before; "" for the first.
	Change string

	files []state
}

// state is one file of those in force.
type state struct {
	path    string // as it was looked for
	sum     string // of its bytes; "" if there is none
	trusted bool
}

// Live is the policy of a session. It follows its files: the user's own, the
// workspace's, and the record of what is trusted. Set the fields before the
// first use. Now may be called concurrently.
type Live struct {
	Home     string // the bridge's directory
	Root     string // the directory whose policy file counts
	Defaults Defaults
	// Layers are rules besides the files', and Source is what to call them.
	Layers []Layer
	Source string
	// Other, if not nil, must agree to everything besides.
	Other *Other

	mu      sync.Mutex
	last    *InForce
	stamps  [5]stamp // of the files when they were read for last
	settled bool     // the stamps tell every later change
}

const (
	// settleAfter is how old a file's last change must be for its times to tell
	// the next one. File systems count in steps of some milliseconds.
	settleAfter = 100 * time.Millisecond
	// A file that has changed may be half written. It is read until it stays the
	// same for rereadAfter, at most rereads times.
	rereadAfter = 20 * time.Millisecond
	rereads     = 10
)

// Now returns the policy in force. It is the same pointer until a file says
// something else. Files that look as before are not read again.
func (l *Live) Now() *InForce {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && l.settled && l.look() == l.stamps {
		return l.last
	}
	next := l.read()
	for range rereads {
		if l.last == nil || next.SHA256 == l.last.SHA256 {
			break
		}
		time.Sleep(rereadAfter)
		before := next.SHA256
		if next = l.read(); next.SHA256 == before {
			break
		}
	}
	switch {
	case l.last == nil:
		l.last = next
	case next.SHA256 != l.last.SHA256:
		next.Change = change(l.last, next)
		l.last = next
	}
	return l.last
}

func (l *Live) look() (s [5]stamp) {
	for i, path := range []string{
		filepath.Join(l.Home, UserFile), filepath.Join(l.Home, misspelt[UserFile]), filepath.Join(l.Home, TrustFile),
		filepath.Join(l.Root, WorkspaceFile), filepath.Join(l.Root, misspelt[WorkspaceFile]),
	} {
		s[i] = stampOf(path)
	}
	return s
}

// read reads the files.
func (l *Live) read() *InForce {
	l.stamps, l.settled = l.look(), true
	recent := time.Now().Add(-settleAfter)
	for _, s := range l.stamps {
		l.settled = l.settled && s.tells(recent)
	}
	n := &InForce{files: []state{{path: filepath.Join(l.Home, UserFile), trusted: true}, {path: filepath.Join(l.Root, WorkspaceFile)}}}
	user, err := LoadUser(l.Home)
	var local *File
	trusted := false
	if err == nil {
		local, trusted, err = LoadTrusted(l.Home, l.Root)
	}
	if err != nil {
		n.broken(l, err)
		return n
	}
	var layers []Layer
	if user != nil {
		layers, n.Sources, n.files[0].sum = append(layers, user.Layer(true)), append(n.Sources, user.Path), hash(user.Data)
	}
	if local != nil {
		source := local.Path
		if !trusted {
			source, n.Untrusted = source+" (not trusted: restrictions only)", local.Path
		}
		layers, n.Sources = append(layers, local.Layer(trusted)), append(n.Sources, source)
		n.files[1].sum, n.files[1].trusted = hash(local.Data), trusted
	}
	if len(l.Layers) > 0 {
		layers, n.Sources = append(layers, l.Layers...), append(n.Sources, l.Source)
	}
	if n.SHA256 = sumOf(n.files, ""); l.Other == nil {
		n.Policy = Combine(l.Defaults, layers...)
		return n
	}
	n.Policy, n.Sources = under(l.Defaults, layers, l.Other), append(n.Sources, l.Other.Source)
	return n
}

// broken makes a policy that denies everything, with the reason.
func (n *InForce) broken(l *Live, err error) {
	text := err.Error()
	if remedy := bridge.AsError(err).Remedy; remedy != "" {
		text += ". " + remedy
	}
	yes := true
	n.Policy = Combine(l.Defaults, append([]Layer{{Rules: Rules{ReadOnly: &yes, ReadOnlySource: Source{Name: "a policy that cannot be used"}}}}, l.Layers...)...)
	n.Policy.broken = "denied: the policy cannot be used: " + text
	n.Err, n.SHA256 = err, sumOf(n.files, text)
}

func sumOf(files []state, broken string) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %q %t\n", f.path, f.sum, f.trusted && f.sum != "")
	}
	_, _ = fmt.Fprintf(h, "%q", broken) // a hash never fails
	return hex.EncodeToString(h.Sum(nil))
}

// change says what is different between two policies.
func change(before, after *InForce) string {
	if after.Err != nil {
		return "the policy cannot be used: " + after.Err.Error()
	}
	if before.Err != nil {
		return "the policy can be used again"
	}
	var out []string
	for i, f := range after.files {
		was := before.files[i]
		switch {
		case f.sum == was.sum:
			if f.trusted != was.trusted {
				out = append(out, f.path+map[bool]string{true: " is trusted now", false: " is not trusted any more"}[f.trusted])
			}
		case was.sum == "":
			out = append(out, f.path+" was added")
		case f.sum == "":
			out = append(out, f.path+" was removed")
		case was.trusted && !f.trusted:
			out = append(out, f.path+" was edited, and is not trusted any more")
		case f.trusted && !was.trusted:
			out = append(out, f.path+" was edited, and is trusted now")
		default:
			out = append(out, f.path+" was edited")
		}
	}
	return strings.Join(out, "; ")
}
