package acp

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Copilot's CLI 1.0.102 accepts MCP servers in session/new and starts none of
// them. It starts those of its configuration, anew for each session. So sessions
// with servers get a program that was started with these servers; sessions with
// the same servers share one.

// configuredServer is an MCP server in the CLI's configuration.
type configuredServer struct {
	Type    string            `json:"type"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"cwd,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Tools   []string          `json:"tools"`
	Timeout int64             `json:"timeout,omitempty"` // in milliseconds
}

// serverName are the names that the CLI leaves as they are, so that a tool's
// server is known.
var serverName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// serversOf is the configuration of the program for a session, or "" if the
// session needs none. Equal servers make equal texts.
func (a *Agent) serversOf(spec bridge.SessionSpec) (string, error) {
	if !a.opts.Copilot || a.opts.Address != "" || len(spec.MCPServers) == 0 {
		return "", nil
	}
	servers := map[string]configuredServer{}
	for name, m := range spec.MCPServers {
		if !serverName.MatchString(name) {
			return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "an MCP server is called " + strconv.Quote(name) + ", which Copilot's CLI would change",
				Remedy: "use letters, digits, - and _ only"}
		}
		s := configuredServer{Type: "local", Command: m.Command, Args: m.Args, Env: m.Env, Dir: m.Dir, Tools: m.Tools, Timeout: int64(m.Timeout / time.Millisecond)}
		if m.URL != "" {
			s.Type, s.URL, s.Headers = "http", m.URL, m.Headers
		} else if s.Dir == "" {
			s.Dir = spec.WorkingDir
		}
		if s.Tools == nil {
			s.Tools = []string{"*"}
		}
		servers[name] = s
	}
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	return string(text), err
}

// serverArgs are the arguments by which the program reads its servers from a
// file, since others can see arguments. remove removes the file, which is read
// before the program answers.
func (o *Options) serverArgs(servers string) (args []string, remove func(), err error) {
	if servers == "" {
		return nil, func() {}, nil
	}
	f, err := os.CreateTemp(o.tmp(), "mcp-*.json")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { _ = os.Remove(f.Name()) } // its user alone can read it
	_, err = f.WriteString(servers)
	if err = errors.Join(err, f.Close()); err != nil {
		remove()
		return nil, nil, err
	}
	return []string{"--additional-mcp-config", "@" + f.Name()}, remove, nil
}

// startsServers says whether the agent starts the servers of session/new.
func (l *link) startsServers() bool {
	i := l.init.AgentInfo
	return !l.opts.Copilot && (i == nil || i.Name != "Copilot")
}
