package copilotruntime

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func FuzzShakeHands(f *testing.F) {
	frame := func(body string) string {
		return "Content-Length: " + itoa(len(body)) + "\r\n\r\n" + body
	}
	f.Add([]byte(frame(`{"jsonrpc":"2.0","id":1,"result":{}}`) + frame(`{"jsonrpc":"2.0","id":2,"result":{"version":"1","protocolVersion":3}}`)))
	f.Add([]byte(frame(`{"jsonrpc":"2.0","method":"note"}`) + frame(`{"id":1,"error":{"code":-32601,"message":"no"}}`)))
	f.Add([]byte("Content-Length: 5\r\nX: y\r\n\r\n"))
	f.Add([]byte("\r\n\r\n"))
	f.Add([]byte(strings.Repeat("A: b\r\n", 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		status, err := handshake(io.Discard, bytes.NewReader(data))
		if err != nil {
			var stranger *protocolError
			var refusal *refusalError
			if !errors.Is(err, errEnded) && !errors.As(err, &stranger) && !errors.As(err, &refusal) {
				t.Fatalf("an error of no known kind: %v", err)
			}
			if status != (Status{}) {
				t.Fatalf("%+v with %v", status, err)
			}
		}
	})
}

func TestShakeHandsPassesOverOtherMessages(t *testing.T) {
	var in strings.Builder
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"window/logMessage","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"their.request","params":{}}`,
		`{"jsonrpc":"2.0","id":"1","result":{"other":true}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"ok":true}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"version":"1.2.3","protocolVersion":3}}`,
	} {
		in.WriteString("content-length:" + itoa(len(body)) + "\r\nContent-Type: x\r\n\r\n" + body)
	}
	got, err := handshake(io.Discard, strings.NewReader(in.String()))
	if want := (Status{Version: "1.2.3", Protocol: 3}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestShakeHandsDoesNotListenForEver(t *testing.T) {
	body := `{"jsonrpc":"2.0","method":"noise"}`
	noise := strings.Repeat("Content-Length: "+itoa(len(body))+"\r\n\r\n"+body, messagesLimit+1)
	_, err := handshake(io.Discard, strings.NewReader(noise))
	var stranger *protocolError
	if !errors.As(err, &stranger) {
		t.Errorf("got %v", err)
	}
}
