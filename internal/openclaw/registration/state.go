package registration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
)

// State is what OpenClaw knows of the bridge. It is read from files; nothing is
// started or asked.
type State struct {
	Plugin  PluginState `json:"plugin"`
	Server  ServerState `json:"mcp"`
	Persona []Target    `json:"persona,omitempty"` // whose text is in OpenClaw's workspace
	// Command is the path of OpenClaw's own command, if it is on the PATH.
	Command string `json:"command,omitempty"`
}

// PluginState is the plugin's part of it.
type PluginState struct {
	Registered bool   `json:"registered"` // OpenClaw's configuration names its directory
	Enabled    bool   `json:"enabled"`
	Current    bool   `json:"current"` // its files are those of this program
	Directory  string `json:"directory,omitempty"`
	Binary     string `json:"binary,omitempty"` // the program that it starts
	Workspace  string `json:"workspace,omitempty"`
	// Missing says that there is no program at Binary.
	Missing bool `json:"binary_missing,omitempty"`
}

// ServerState is the MCP server's part of it.
type ServerState struct {
	Registered bool   `json:"registered"`
	Foreign    bool   `json:"foreign,omitempty"` // a server of that name is not ours
	Binary     string `json:"binary,omitempty"`
	Workspace  string `json:"workspace,omitempty"`
	Missing    bool   `json:"binary_missing,omitempty"`
}

// State reads the registrations. It fails if OpenClaw's configuration is
// broken.
func (r *Registrar) State() (State, error) {
	out := State{Command: r.program()}
	s, err := r.readSettings()
	if err != nil {
		return out, err
	}
	dir := r.directory()
	var e pluginSettings
	if text, ok := s.doc.Get(pluginEntry...); ok {
		_ = json.Unmarshal(text, &e) // something else is not ours
	}
	if out.Plugin.Registered = s.installed(dir); out.Plugin.Registered {
		stale, err := r.stale()
		if err != nil {
			return out, err
		}
		allowed := s.list(pluginAllow)
		on, set := s.doc.Get("plugins", "enabled")
		out.Plugin = PluginState{Registered: true, Directory: dir, Current: len(stale) == 0, Binary: e.Config.Binary, Workspace: e.Config.Workspace, Missing: missing(e.Config.Binary),
			Enabled: e.Enabled && (!set || string(on) != "false") && !slices.Contains(s.list(pluginDeny), pluginID) &&
				(len(allowed) == 0 || slices.Contains(allowed, pluginID))}
	}
	if d, there := s.registeredServer(); there {
		out.Server = ServerState{Registered: d.ours(), Foreign: !d.ours()}
		if d.ours() {
			out.Server.Binary, out.Server.Workspace, out.Server.Missing = d.Command, d.workspace(), missing(d.Command)
		}
	}
	if p, err := r.readPersona(); err == nil {
		for _, t := range []Target{Plugin, Server} {
			if _, _, found, err := p.block(t); err == nil && found {
				out.Persona = append(out.Persona, t)
			}
		}
	}
	return out, nil
}

// missing says whether a program that is named by its path is not there.
func missing(program string) bool {
	if !filepath.IsAbs(program) {
		return false // it is looked for on the gateway's PATH
	}
	_, err := os.Stat(program)
	return err != nil
}
