package lsp

import (
	"bytes"
	"io"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// FuzzConn feeds the connection what a server may say.
func FuzzConn(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":[]}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","method":"workspace/configuration","params":{"items":[{"section":"a.b"}]}}`))
	f.Add([]byte(`{"method":"client/registerCapability","id":null,"params":{"registrations":[{"id":"1","method":"m"}]}}`))
	f.Add([]byte(`{"id":2,"method":"workspace/applyEdit","params":{"edit":{"changes":{"file:///a":[]}}}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var in, out bytes.Buffer
		if err := jsonrpc.NewHeaders(nil, &in, nil, 0).Write(content); err != nil {
			t.Fatal(err)
		}
		m := New(t.TempDir(), Options{Env: []string{}})
		c := &client{m: m, registered: map[string]string{}, captured: map[string]*capture{"file:///a": {}}}
		c.connect(&in, &out, io.Discard)
		_ = c.conn.Run(t.Context()) // why it ended is asked below
		if c.conn.Err() == nil {
			t.Error("it ended without a cause")
		}
	})
}
