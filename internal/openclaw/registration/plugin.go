package registration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Where the plugin stands in OpenClaw's configuration.
var (
	pluginPaths = []string{"plugins", "load", "paths"}
	pluginAllow = []string{"plugins", "allow"}
	pluginDeny  = []string{"plugins", "deny"}
	pluginEntry = []string{"plugins", "entries", pluginID}
)

// pluginConfig is what the plugin wants to know.
type pluginConfig struct {
	Binary    string            `json:"binary"`
	Workspace string            `json:"workspace,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
}

// pluginSettings is an entry of plugins.entries.
type pluginSettings struct {
	Enabled bool         `json:"enabled"`
	Config  pluginConfig `json:"config"`
}

func (r *Registrar) pluginConfig(q Request) pluginConfig {
	c := pluginConfig{Binary: literal(r.opts.Executable), Workspace: literal(q.Workspace)}
	if len(q.Env) > 0 {
		c.Env = literals(q.Env)
	}
	return c
}

// plugin makes the changes of the plugin's registration.
func (p *plan) plugin(q Request) error {
	dir := p.r.directory()
	if p.method == Edit {
		if err := p.append(dir, pluginPaths); err != nil {
			return err
		}
	}
	if len(p.settings.list(pluginAllow)) > 0 {
		if err := p.append(pluginID, pluginAllow); err != nil {
			return err
		}
	}
	if slices.Contains(p.settings.list(pluginDeny), pluginID) {
		p.result.note("plugins.deny in OpenClaw's configuration names " + pluginID + ", so that it is not loaded: take it out there")
	}
	if on, ok := p.settings.doc.Get("plugins", "enabled"); ok && string(on) == "false" {
		p.result.note("plugins.enabled is false in OpenClaw's configuration, so that no plugin is loaded")
	}
	c := p.r.pluginConfig(q)
	if _, yes := p.settings.included(pluginEntry); yes {
		return nil // it is left to the command
	}
	if _, ok := p.settings.doc.Get(join(pluginEntry, "config", "binary")...); ok {
		p.adopt(pluginEntry)
	}
	if _, ok := p.settings.doc.Get(pluginEntry...); !ok {
		return p.set(pluginSettings{Enabled: true, Config: c}, pluginEntry)
	}
	// The existing entry may hold other members.
	if err := p.set(true, join(pluginEntry, "enabled")); err != nil {
		return err
	}
	at := join(pluginEntry, "config")
	if p.covered(pluginEntry, false) {
		return p.set(c, at)
	}
	if err := p.set(c.Binary, join(at, "binary")); err != nil {
		return err
	}
	if c.Workspace != "" {
		if err := p.set(c.Workspace, join(at, "workspace")); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(c.Env) {
		if err := p.set(c.Env[name], join(at, "env", name)); err != nil {
			return err
		}
	}
	return nil
}

// installed says whether the configuration names the plugin's directory.
func (s *settings) installed(dir string) bool { return slices.Contains(s.list(pluginPaths), dir) }

// list reads a list of strings.
func (s *settings) list(path []string) []string {
	text, _ := s.doc.Get(path...)
	var all []string
	_ = json.Unmarshal(text, &all) // something else is no list
	return all
}

// pluginFiles are the files of the plugin by name.
func (r *Registrar) pluginFiles() (map[string][]byte, error) {
	out := map[string][]byte{}
	entries, err := fs.ReadDir(r.opts.Files, ".")
	for _, e := range entries {
		if e.Type().IsRegular() && err == nil {
			out[e.Name()], err = fs.ReadFile(r.opts.Files, e.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the plugin: %w", err)
	}
	return out, nil
}

// stale names the files of the plugin's directory that are not as they should
// be: missing, changed, or of another version.
func (r *Registrar) stale() ([]string, error) {
	want, err := r.pluginFiles()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range sortedKeys(want) {
		have, err := os.ReadFile(filepath.Join(r.directory(), name))
		if err != nil || !bytes.Equal(have, want[name]) {
			out = append(out, name)
		}
	}
	entries, err := os.ReadDir(r.directory())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look into the plugin's directory: %w", err)
	}
	for _, e := range entries {
		if _, known := want[e.Name()]; !known && e.Type().IsRegular() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// writePlugin brings the plugin's directory up to date. The manifest comes
// last: without it OpenClaw sees no plugin, rather than half of one.
func (r *Registrar) writePlugin() error {
	want, err := r.pluginFiles()
	if err != nil {
		return err
	}
	stale, err := r.stale()
	if err != nil {
		return err
	}
	dir := r.directory()
	if err := ownDirectory(dir); err != nil {
		return err
	}
	slices.SortStableFunc(stale, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range stale {
		path := filepath.Join(dir, name)
		if text, ok := want[name]; ok {
			err = durable.WriteFile(path, text, 0o600)
		} else {
			err = os.Remove(path)
		}
		if err != nil {
			return &bridge.Error{Code: bridge.CodeConflict, Message: "the plugin cannot be written", Cause: err, Remedy: "make " + dir + " writable"}
		}
	}
	return nil
}

const manifestFile = "openclaw.plugin.json"

func rank(name string) int {
	if name == manifestFile {
		return 1
	}
	return 0
}

// ownDirectory refuses to write through a link.
func ownDirectory(dir string) error {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return &bridge.Error{Code: bridge.CodeConflict, Message: dir + " is not a directory", Remedy: "move it away"}
	}
	return nil
}

// removePlugin deletes the plugin's directory, which is ours alone.
func (r *Registrar) removePlugin() error {
	dir := r.directory()
	if err := ownDirectory(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the plugin: %w", err)
	}
	return nil
}
