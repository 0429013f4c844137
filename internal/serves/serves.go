// Package serves knows the running `copilot-bridge serve` processes of a user.
// Each leaves a small file in the bridge's home while it answers. The file holds
// no secret. The commands that show, stop and find servers read it; they are in
// internal/cli.
package serves

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// Serve is a running server.
type Serve struct {
	supervise.Process
	URL       string    `json:"url"`
	RPC       string    `json:"rpc"`
	Workspace string    `json:"workspace"` // absolute
	ReadOnly  bool      `json:"read_only"`
	Token     bool      `json:"token"` // clients need one
	Since     time.Time `json:"since"`
	Version   string    `json:"version"`
	Log       string    `json:"log,omitempty"` // the file to which its standard error goes, if it is known
}

// Port is where it listens.
func (s Serve) Port() int {
	u, err := url.Parse(s.URL)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port()) // 0 if there is none
	return port
}

// Dir is where the files are, in the bridge's home.
func Dir(home string) string { return filepath.Join(home, "serves") }

// Register makes this process known as s. leave takes it back.
func Register(home string, s Serve) (leave func() error, err error) {
	s.Process = supervise.Self()
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(Dir(home), strconv.Itoa(s.PID)+".json")
	if err := durable.WriteFile(file, append(data, '\n'), 0o600); err != nil {
		return nil, err
	}
	return func() error {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, nil
}

// List returns the servers whose process is alive, the oldest first. It removes
// the files of those that were killed.
func List(home string) ([]Serve, error) {
	entries, err := os.ReadDir(Dir(home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the running servers: %w", err)
	}
	var out []Serve
	for _, e := range entries {
		pid, ok := strings.CutSuffix(e.Name(), ".json")
		if _, err := strconv.Atoi(pid); !ok || err != nil {
			continue
		}
		file := filepath.Join(Dir(home), e.Name())
		data, err := durable.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just ended
		}
		var s Serve
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		if err == nil && s.Alive() {
			out = append(out, s)
			continue
		}
		_ = os.Remove(file) // another list may have done it
	}
	slices.SortStableFunc(out, func(a, b Serve) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID)) })
	return out, nil
}

// In returns those of a workspace.
func In(list []Serve, workspace string) []Serve {
	return slices.DeleteFunc(slices.Clone(list), func(s Serve) bool { return s.Workspace != workspace })
}

// keptLogs is how many logs of ended servers are kept.
const keptLogs = 5

// NewLog makes a file for the log of a server without a terminal, and removes all
// but the newest of those that have ended.
func NewLog(home string) (*os.File, error) {
	running, err := List(home)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(Dir(home), 0o700); err != nil {
		return nil, err
	}
	old, err := Logs(home)
	if err != nil {
		return nil, err
	}
	old = slices.DeleteFunc(old, func(file string) bool {
		return slices.ContainsFunc(running, func(s Serve) bool { return s.Log == file })
	})
	for _, file := range old[:max(0, len(old)-keptLogs)] {
		_ = os.Remove(file) // another start may have done it
	}
	name := fmt.Sprintf("serve-%s-%d.log", time.Now().UTC().Format("20060102T150405"), os.Getpid())
	return os.OpenFile(filepath.Join(Dir(home), name), os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_EXCL, 0o600)
}

// Logs lists the logs that are there, the newest last.
func Logs(home string) ([]string, error) {
	return filepath.Glob(filepath.Join(Dir(home), "serve-*.log"))
}
