package clientsettings

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/json5"
)

// Outcome is what became of a registration.
type Outcome string

// The outcomes.
const (
	Registered   Outcome = "registered"
	Already      Outcome = "already"
	Unregistered Outcome = "unregistered"
	Absent       Outcome = "absent" // there was nothing to unregister
)

// Result says what was changed, or would be.
type Result struct {
	Client  string   `json:"client"`
	Outcome Outcome  `json:"outcome"`
	File    string   `json:"file"`
	DryRun  bool     `json:"dry_run,omitempty"`
	Lines   []string `json:"lines,omitempty"` // "+ new" and "- old"
}

// Registrar keeps the record of what it wrote. Several processes may use it.
type Registrar struct {
	Record string // the file
	Places Places
}

// entry is what was done to a file.
type entry struct {
	Before  string    `json:"before"`            // the whole file
	Missing bool      `json:"missing,omitempty"` // there was none
	Written string    `json:"written"`           // SHA-256 of what was written
	Members []written `json:"members,omitempty"`
}

// written is a member that was set.
type written struct {
	Undo  *json5.Undo     `json:"undo"`
	Value json.RawMessage `json:"value"`
}

// lockWait is how long another bridge may be registering.
const lockWait = 30 * time.Second

// Register writes the settings of a client.
func (r Registrar) Register(ctx context.Context, c Client, b Bridge, dryRun bool) (Result, error) {
	return r.change(ctx, c, dryRun, func(now file, old *entry) (file, *entry, Outcome, error) {
		base := now
		if old != nil { // what was written before may be for another address
			var err error
			if base, err = old.takeOut(c, now); err != nil {
				return now, old, "", err
			}
		}
		next, e, err := c.write(base, b)
		if err != nil {
			return now, old, "", err
		}
		if next.text == now.text {
			return now, old, Already, nil
		}
		return next, e, Registered, nil
	})
}

// Unregister takes out what Register wrote. While only the bridge has written the
// file since, it becomes what it was, byte for byte.
func (r Registrar) Unregister(ctx context.Context, c Client, dryRun bool) (Result, error) {
	return r.change(ctx, c, dryRun, func(now file, old *entry) (file, *entry, Outcome, error) {
		if old == nil {
			return now, nil, Absent, nil
		}
		next, err := old.takeOut(c, now)
		return next, nil, Unregistered, err
	})
}

// file is a file of settings.
type file struct {
	text    string
	missing bool
}

// change computes the next state of a client's file, and writes it. The record is
// written before a file gets something of ours, and after it was taken out.
func (r Registrar) change(ctx context.Context, c Client, dryRun bool, next func(file, *entry) (file, *entry, Outcome, error)) (result Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := durable.Lock(ctx, r.Record+".lock")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	path := c.file(r.Places)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays one
	}
	entries, err := r.read()
	if err != nil {
		return result, err
	}
	now, mode, err := readFile(path)
	if err != nil {
		return result, err
	}
	after, e, outcome, err := next(now, entries[path])
	result = Result{Client: c.Name, Outcome: outcome, File: path, DryRun: dryRun}
	if err != nil {
		return result, &bridge.Error{Code: bridge.CodeConflict, Message: path + " cannot be changed", Cause: err, Remedy: "correct the file and try again; it was left as it is"}
	}
	result.Lines = difference(now.text, after.text)
	if dryRun || outcome == Already || outcome == Absent {
		return result, nil
	}
	if e != nil {
		entries[path] = e
		if err := r.write(entries); err != nil {
			return result, err
		}
	}
	if after.missing {
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		err = durable.WriteFile(path, []byte(after.text), mode)
	}
	if err != nil || e != nil {
		return result, err
	}
	delete(entries, path)
	return result, r.write(entries)
}

func readFile(path string) (f file, mode fs.FileMode, err error) {
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file{missing: true}, 0o600, nil
	}
	if err != nil {
		return f, 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return f, 0, err
	}
	return file{text: string(data)}, info.Mode().Perm(), nil
}

func (r Registrar) read() (map[string]*entry, error) {
	entries := map[string]*entry{}
	data, err := durable.ReadFile(r.Record)
	if err == nil {
		err = json.Unmarshal(data, &entries)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "the record of what was registered, " + r.Record + ", cannot be read", Cause: err,
			Remedy: "delete it, and take the bridge out of the clients' settings by hand"}
	}
	return entries, nil
}

func (r Registrar) write(entries map[string]*entry) error {
	if len(entries) == 0 {
		return os.Remove(r.Record)
	}
	data, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(r.Record, append(data, '\n'), 0o600)
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// write puts the settings into a file.
func (c Client) write(base file, b Bridge) (file, *entry, error) {
	e := &entry{Before: base.text, Missing: base.missing}
	var text string
	if c.codex != nil {
		top, end := c.codex(b)
		text = addBlocks(base.text, top, end)
	} else {
		if text = base.text; strings.TrimSpace(text) == "" {
			text = "{}\n"
		}
		doc, err := json5.Parse([]byte(text))
		if err != nil {
			return base, nil, err
		}
		for _, m := range c.members(b) {
			undo, err := doc.Set(m.value, m.path...)
			if err != nil {
				return base, nil, err
			}
			if undo != nil {
				value, _ := doc.Get(m.path...)
				e.Members = append(e.Members, written{undo, value})
			}
		}
		text = string(doc.Bytes())
	}
	e.Written = sum(text)
	return file{text: text}, e, nil
}

// takeOut is a file without what was written. What others have changed since is
// left alone.
func (e *entry) takeOut(c Client, now file) (file, error) {
	switch {
	case now.missing:
		return now, nil
	case sum(now.text) == e.Written:
		return file{text: e.Before, missing: e.Missing}, nil
	case c.codex != nil:
		text := removeBlocks(now.text)
		return file{text: text, missing: e.Missing && strings.TrimSpace(text) == ""}, nil
	}
	doc, err := json5.Parse([]byte(now.text))
	if err != nil {
		return now, err
	}
	for i := len(e.Members) - 1; i >= 0; i-- {
		m := e.Members[i]
		if value, ok := doc.Get(m.Undo.Path...); !ok || !sameJSON(value, m.Value) {
			continue
		}
		if err := doc.Revert(m.Undo); err != nil {
			return now, err
		}
	}
	text := string(doc.Bytes())
	return file{text: text, missing: e.Missing && string(doc.JSON()) == "{}"}, nil
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// difference lists the lines between the first and the last that differ.
func difference(before, after string) (out []string) {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	for _, l := range a {
		out = append(out, "- "+l)
	}
	for _, l := range b {
		out = append(out, "+ "+l)
	}
	return out
}
