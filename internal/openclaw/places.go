package openclaw

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/json5"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/memory"
)

// Places are where an installation of OpenClaw keeps its things.
type Places struct {
	State     string // ~/.openclaw, or what the environment says
	Config    string // openclaw.json
	Workspace string // of the agent
	Agent     string // whose memory it is; "" leaves the choice to the gateway
	Present   bool   // there is such an installation
	// Problem is why the configuration was not used, if there is one.
	Problem error

	token string // the gateway's, from the configuration
}

// settings are what we want of OpenClaw's configuration.
type settings struct {
	Gateway struct {
		Auth struct {
			Token any `json:"token"` // a string, or a reference to a secret that we do not follow
		} `json:"auth"`
	} `json:"gateway"`
	Agents struct {
		Defaults struct {
			Workspace string `json:"workspace"`
		} `json:"defaults"`
		Entries map[string]struct {
			Workspace string `json:"workspace"`
		} `json:"entries"`
	} `json:"agents"`
}

const maxConfig = 4 << 20

// Find looks for OpenClaw. env reads the environment, home is the user's
// directory, agent the one whose memory is meant, or "" for the only or main
// one.
func Find(env func(string) string, home, agent string) Places {
	p := Places{Agent: agent, State: filepath.Join(home, ".openclaw")}
	if profile := env("OPENCLAW_PROFILE"); safeName.MatchString(profile) && profile != "default" {
		p.State += "-" + profile
	}
	if dir := env("OPENCLAW_STATE_DIR"); dir != "" {
		p.State = expand(dir, home)
	}
	p.Config = filepath.Join(p.State, "openclaw.json")
	if path := env("OPENCLAW_CONFIG_PATH"); path != "" {
		p.Config = expand(path, home)
	}
	var s settings
	s, p.Problem = readSettings(p.Config)
	if token, ok := s.Gateway.Auth.Token.(string); ok {
		p.token = fromEnvironment(token, env)
	}
	p.locate(s, env, home)
	for _, path := range []string{p.State, p.Config, p.Workspace} {
		if _, err := os.Stat(path); err == nil {
			p.Present = true
		}
	}
	return p
}

// locate finds the workspace as OpenClaw does.
func (p *Places) locate(s settings, env func(string) string, home string) {
	entries := s.Agents.Entries
	if _, ok := entries["main"]; p.Agent == "" && ok {
		p.Agent = "main"
	}
	if p.Agent == "" && len(entries) == 1 {
		for id := range entries {
			p.Agent = id
		}
	}
	_, several := entries[p.Agent]
	several = several && len(entries) > 1 && safeName.MatchString(p.Agent)
	switch {
	case entries[p.Agent].Workspace != "":
		p.Workspace = expand(fromEnvironment(entries[p.Agent].Workspace, env), home)
	case s.Agents.Defaults.Workspace != "":
		p.Workspace = expand(fromEnvironment(s.Agents.Defaults.Workspace, env), home)
		if several {
			p.Workspace = filepath.Join(p.Workspace, p.Agent)
		}
	case several && p.Agent != "main":
		p.Workspace = filepath.Join(p.State, "workspace-"+p.Agent)
	case env("OPENCLAW_WORKSPACE_DIR") != "":
		p.Workspace = expand(env("OPENCLAW_WORKSPACE_DIR"), home)
	default:
		p.Workspace = filepath.Join(p.State, "workspace")
	}
}

// safeName is what may become part of a path.
var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func readSettings(path string) (s settings, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err == nil && (!info.Mode().IsRegular() || info.Size() > maxConfig):
		err = errors.New("it is too large, or no file")
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err == nil {
		data, err = json5.Standardize(data)
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return settings{}, fmt.Errorf("OpenClaw's configuration %s is not understood: %w", path, err)
	}
	return s, nil
}

func expand(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		path = filepath.Join(home, rest)
	}
	return filepath.Clean(path)
}

var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// fromEnvironment puts in what OpenClaw's own references to the environment
// mean.
func fromEnvironment(s string, env func(string) string) string {
	return reference.ReplaceAllStringFunc(s, func(m string) string { return env(m[2 : len(m)-1]) })
}

// folders are where memory is searched: the workspace, then the places of old.
func (p Places) folders() []memory.Folder {
	return []memory.Folder{
		{Dir: p.Workspace, Files: []string{longTerm, userFile}, Trees: []string{notes}},
		{Dir: p.State, Files: []string{userFile}, Trees: []string{notes}, Flat: true},
	}
}

// The files of a workspace that are memory.
const (
	longTerm = "MEMORY.md"
	userFile = "USER.md"
	notes    = "memory"
)
