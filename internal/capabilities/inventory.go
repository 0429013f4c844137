// Package capabilities is the inventory of what Copilot's runtime and its Go
// SDK offer, and of what the bridge does with each piece. It reads files and
// renders text; it starts no program and needs no Go toolchain.
// tools/capabilities makes the inventory and records the probes' findings.
// internal/cli shows both and compares them with a runtime.
package capabilities

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Inventory is what the pinned versions offer.
type Inventory struct {
	Runtime Surface `json:"runtime"`
	SDK     SDK     `json:"sdk"`
}

// Surface is what a runtime says of itself in its schemas.
type Surface struct {
	Package string `json:"package"`
	Version string `json:"version"`
	// Digests are the SHA-256 sums of the schema files, by name.
	Digests     map[string]string `json:"digests"`
	Methods     []Method          `json:"methods"`
	Events      []Event           `json:"events"`
	Permissions []Variant         `json:"permissions"`
	Decisions   []Variant         `json:"decisions"` // what may be answered
	Results     []Variant         `json:"results"`   // the reported outcomes of a request
	Enums       []Enum            `json:"enums"`
}

// Method is a call of the JSON-RPC protocol.
type Method struct {
	Name   string  `json:"name"`
	Side   Side    `json:"side"`
	About  string  `json:"about,omitempty"`
	Status Status  `json:"status"`
	Params []Field `json:"params,omitempty"`
	Result []Field `json:"result,omitempty"`
}

// Side says who answers a method.
type Side string

// The sides. Methods of the last two are called by the runtime.
const (
	SideServer        Side = "server"
	SideSession       Side = "session"
	SideClientSession Side = "clientSession"
	SideClientGlobal  Side = "clientGlobal"
)

// Status is what the schema says of an entry's future.
type Status struct {
	Experimental bool `json:"experimental,omitempty"`
	Internal     bool `json:"internal,omitempty"`
	Deprecated   bool `json:"deprecated,omitempty"`
}

// Event is an event of a session.
type Event struct {
	Name      string  `json:"name"`
	About     string  `json:"about,omitempty"`
	Status    Status  `json:"status"`
	Ephemeral bool    `json:"ephemeral,omitempty"` // it is not stored
	Fields    []Field `json:"fields,omitempty"`
}

// Variant is one of the shapes of a union, told apart by its kind.
type Variant struct {
	Kind   string  `json:"kind"`
	About  string  `json:"about,omitempty"`
	Status Status  `json:"status"`
	Fields []Field `json:"fields,omitempty"`
}

// Enum is a fixed set of values.
type Enum struct {
	Name   string   `json:"name"`
	About  string   `json:"about,omitempty"`
	Values []string `json:"values"`
}

// Field is a property of a payload.
type Field struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Optional bool   `json:"optional,omitempty"`
}

// SDK is what the Go SDK declares, and where the bridge uses it.
type SDK struct {
	Module   string   `json:"module"`
	Version  string   `json:"version"`
	Protocol int      `json:"protocol"`
	Members  []Member `json:"members"`
	Types    []Type   `json:"types"`
	// Calls are the protocol's methods with the Go function that calls each.
	Calls []Call `json:"calls"`
	// Events are the event types that the SDK decodes.
	Events []EventUse `json:"events"`
	// Permissions are the kinds of permission requests that it decodes.
	Permissions []EventUse `json:"permissions"`
}

// Member is a method of Client or Session.
type Member struct {
	Owner     string   `json:"owner"`
	Name      string   `json:"name"`
	Signature string   `json:"signature"`
	About     string   `json:"about,omitempty"`
	Uses      []string `json:"uses,omitempty"` // files of the bridge
}

// Type is a struct of the SDK that callers fill in or read.
type Type struct {
	Name   string      `json:"name"`
	About  string      `json:"about,omitempty"`
	Fields []TypeField `json:"fields"`
}

// TypeField is a field of a Type.
type TypeField struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"`
	About string   `json:"about,omitempty"`
	Uses  []string `json:"uses,omitempty"`
}

// Call says which Go function makes a call of the protocol. Uses are files of
// the bridge that call it, and Through the SDK's own methods by which the
// bridge does so.
type Call struct {
	Method  string   `json:"method"`
	Func    string   `json:"func"`
	Uses    []string `json:"uses,omitempty"`
	Through []string `json:"through,omitempty"`
}

// EventUse says how the bridge treats an event or a permission kind, as found
// in its code.
type EventUse struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Uses    []string `json:"uses,omitempty"`
	Dropped bool     `json:"dropped,omitempty"` // there is a case for it, and it does nothing
	// Fields are those that the SDK's type has, by their names on the wire.
	Fields []string `json:"fields,omitempty"`
}

//go:embed inventory.json.gz
var pinned []byte

// Pinned is the inventory that this program was built with.
func Pinned() (*Inventory, error) {
	b, err := Unpack(pinned)
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// Pack compresses an inventory: it would be the largest part of the program.
func Pack(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(b)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("compress an inventory: %w", err)
	}
	return out.Bytes(), nil
}

// Unpack reads what Pack wrote.
func Unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read an inventory: %w", err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read an inventory: %w", err)
	}
	return b, nil
}

// Decode reads what Encode wrote.
func Decode(b []byte) (*Inventory, error) {
	var inv Inventory
	if err := json.Unmarshal(b, &inv); err != nil {
		return nil, fmt.Errorf("read an inventory: %w", err)
	}
	if inv.Runtime.Version == "" || len(inv.Runtime.Events) == 0 {
		return nil, fmt.Errorf("read an inventory: it names no runtime and no events")
	}
	return &inv, nil
}

// Encode writes an inventory so that the same one always gives the same bytes.
func Encode(inv *Inventory) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(inv); err != nil {
		return nil, fmt.Errorf("write an inventory: %w", err)
	}
	return b.Bytes(), nil
}
