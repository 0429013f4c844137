// Package acpschema holds messages to the protocol's published schema, for
// tests. The schema is not part of this repository; where it is not at hand
// nothing is checked, and Checker says so.
package acpschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the protocol's, or nothing. It may be shared by many checkers.
type Schema struct {
	defs    map[string]json.RawMessage
	methods map[string]string // "session/new params", "session/new result" → definition

	mu       sync.Mutex
	resolved map[string]*jsonschema.Resolved
}

// Load reads the schema, if it is at hand.
func Load() (*Schema, error) {
	s := &Schema{methods: map[string]string{}, resolved: map[string]*jsonschema.Resolved{}}
	_, here, _, _ := runtime.Caller(0)
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "..", "..", "..", "shared", "data", "acp", "v1.schema.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var doc struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &doc)
	}
	if err != nil {
		return nil, err
	}
	s.defs = doc.Defs
	for name, def := range doc.Defs {
		var about struct {
			Method string `json:"x-method"`
		}
		if err := json.Unmarshal(def, &about); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		switch {
		case about.Method == "":
		case strings.HasSuffix(name, "Response"):
			s.methods[about.Method+" result"] = name
		default:
			s.methods[about.Method+" params"] = name
		}
	}
	return s, nil
}

// There says whether the schema is at hand.
func (s *Schema) There() bool { return s.defs != nil }

// Checker follows one connection and checks what the agent sends. It may be
// used by several goroutines.
type Checker struct {
	*Schema
	t testing.TB

	mu    sync.Mutex
	asked map[string]string // ids of the client's requests, and their methods
}

// Follow returns a checker for a connection.
func (s *Schema) Follow(t testing.TB) *Checker {
	t.Helper()
	if !s.There() {
		t.Log("the protocol's schema is not at hand: messages are not held to it")
	}
	return &Checker{Schema: s, t: t, asked: map[string]string{}}
}

// message is any message.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// Client takes note of a line that the client sent.
func (c *Checker) Client(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil || m.Method == "" || len(m.ID) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[string(m.ID)] = m.Method
}

// Agent checks a line that the agent sent.
func (c *Checker) Agent(line []byte) {
	c.t.Helper()
	if err := c.check(line); err != nil {
		c.t.Errorf("%v\n%s", err, line)
	}
}

func (c *Checker) check(line []byte) error {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("the agent sent something that is no message: %w", err)
	}
	if m.Version != "2.0" {
		return fmt.Errorf("the agent sent version %q", m.Version)
	}
	if c.defs == nil {
		return nil
	}
	switch {
	case m.Method != "":
		def, ok := c.methods[m.Method+" params"]
		if !ok {
			return fmt.Errorf("the agent sent the method %s", m.Method)
		}
		kind := m.Method
		var update struct {
			Update struct {
				Kind string `json:"sessionUpdate"`
			} `json:"update"`
		}
		if json.Unmarshal(m.Params, &update) == nil && update.Update.Kind != "" {
			kind = update.Update.Kind
		}
		return c.validate(def, kind, m.Params)
	case len(m.Error) > 0:
		return c.validate("Error", "error", m.Error)
	}
	c.mu.Lock()
	method, ok := c.asked[string(m.ID)]
	delete(c.asked, string(m.ID))
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("the agent answered %s, which nobody asked", m.ID)
	}
	def, ok := c.methods[method+" result"]
	if !ok {
		return nil // one that is not in the standard
	}
	return c.validate(def, method+" answer", m.Result)
}

func (c *Checker) validate(def, kind string, raw json.RawMessage) error {
	r, err := c.resolve(def)
	if err != nil {
		return fmt.Errorf("the schema of %s: %w", def, err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if err := r.Validate(v); err != nil {
		return fmt.Errorf("%s is not as the schema has it: %w", kind, err)
	}
	return nil
}

func (s *Schema) resolve(def string) (*jsonschema.Resolved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.resolved[def]; r != nil {
		return r, nil
	}
	doc, err := json.Marshal(map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/" + def, "$defs": s.defs})
	if err != nil {
		return nil, err
	}
	var parsed jsonschema.Schema
	if err := json.Unmarshal(doc, &parsed); err != nil {
		return nil, err
	}
	r, err := parsed.Resolve(nil)
	if err == nil {
		s.resolved[def] = r
	}
	return r, err
}
