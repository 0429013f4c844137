package registration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/json5"
)

const recordVersion = 1

// record lists the changes, so that unregister can take them back. It may hold pieces of
// OpenClaw's configuration and is for its owner only.
type record struct {
	Version int      `json:"version"`
	Entries []*entry `json:"entries"`
	// Originals are configurations as they were before the first registration,
	// by path.
	Originals map[string]*original `json:"originals,omitempty"`
}

// original is a file before it was changed. While only the bridge has written
// it since, it is given back byte for byte; else the changes are taken out one
// by one.
type original struct {
	Text    string `json:"text"`
	Missing bool   `json:"missing,omitempty"` // there was no file
	Written string `json:"written"`           // the SHA-256 of the text that the bridge wrote last
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// untouched returns the original of a configuration if only the bridge has
// written it since, else nil.
func (rec *record) untouched(config string, s *settings) *original {
	if o := rec.Originals[config]; o != nil && (o.Written == sum(s.before) || o.Text == string(s.before)) {
		return o
	}
	return nil
}

// remember keeps what the configuration was, and what it will be.
func (rec *record) remember(p *plan) {
	config, s := p.result.Config, p.settings
	o := rec.untouched(config, s)
	if o == nil && !p.adopted && !rec.registered(config) {
		o = &original{Text: string(s.before), Missing: s.missing}
	}
	if o == nil {
		delete(rec.Originals, config)
		return
	}
	if rec.Originals == nil {
		rec.Originals = map[string]*original{}
	}
	o.Written, rec.Originals[config] = sum(s.doc.Bytes()), o
}

func (rec *record) registered(config string) bool {
	return slices.ContainsFunc(rec.Entries, func(e *entry) bool { return e.Config == config })
}

// entry is one registration.
type entry struct {
	Target  Target        `json:"target"`
	Config  string        `json:"config"` // OpenClaw's
	Method  Method        `json:"method"`
	Undo    []*json5.Undo `json:"undo,omitempty"`
	Created bool          `json:"created,omitempty"` // the configuration was not there before
	Persona *personaEntry `json:"persona,omitempty"`
}

// personaEntry is a text in a file of OpenClaw's workspace.
type personaEntry struct {
	File    string `json:"file"`
	Created bool   `json:"created,omitempty"` // the file was not there before
}

func (r *Registrar) recordPath() string {
	return filepath.Join(r.opts.Home, "openclaw-registration.json")
}

func (r *Registrar) readRecord() (*record, error) {
	path := r.recordPath()
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &record{Version: recordVersion}, nil
	}
	var rec record
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err == nil && rec.Version != recordVersion {
		err = fmt.Errorf("it has version %d, this program knows %d", rec.Version, recordVersion)
	}
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "the record of what was registered, " + path + ", cannot be read", Cause: err,
			Remedy: "use the version of copilot-bridge that wrote it, or delete it: then what looks like ours counts as ours"}
	}
	return &rec, nil
}

// writeRecord keeps the record; one of nothing goes.
func (r *Registrar) writeRecord(rec *record) error {
	if len(rec.Entries) == 0 {
		if err := os.Remove(r.recordPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the record: %w", err)
		}
		return nil
	}
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	return durable.WriteFile(r.recordPath(), append(data, '\n'), 0o600)
}

// find returns the entry of a target, nil if it is not registered.
func (rec *record) find(target Target, config string) *entry {
	for _, e := range rec.Entries {
		if e.Target == target && e.Config == config {
			return e
		}
	}
	return nil
}

// put replaces the entry of a target; nil removes it.
func (rec *record) put(target Target, config string, e *entry) {
	rec.Entries = slices.DeleteFunc(rec.Entries, func(old *entry) bool { return old.Target == target && old.Config == config })
	if e != nil {
		rec.Entries = append(rec.Entries, e)
	}
	if !rec.registered(config) {
		delete(rec.Originals, config)
	}
}

// undoOf is how the value at a path is taken back, nil if we did not set it.
func (e *entry) undoOf(path []string, element bool) *json5.Undo {
	if e == nil {
		return nil
	}
	for _, u := range e.Undo {
		if slices.Equal(u.Path, path) && (u.Element != nil) == element {
			return u
		}
	}
	return nil
}
