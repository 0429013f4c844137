package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFrames(t *testing.T) {
	tests := []struct {
		name, input string
		want        []string
		noise       string
		err         error // after the messages; nil is any
	}{
		{"two", "Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]", []string{"{}", "[1]"}, "", io.EOF},
		{"other headers", "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length:2\r\nX: y\r\n\r\n{}", []string{"{}"}, "Content-Type: application/vscode-jsonrpc; charset=utf-8\n", io.EOF},
		{"bare line ends", "Content-Length: 2\n\n{}", []string{"{}"}, "", io.EOF},
		{"empty", "Content-Length: 0\r\n\r\n", []string{""}, "", io.EOF},
		{"noise", "hello\n\nworld: x\nContent-Length: 2\r\n\r\n{}bye Content-Length: 2\r\n\r\n[]", []string{"{}", "[]"}, "hello\nworld: x\n", io.EOF},
		{"half a header", "Content-Len", nil, "Content-Len\n", io.ErrUnexpectedEOF},
		{"no content", "Content-Length: 5\r\n\r\nab", nil, "", io.ErrUnexpectedEOF},
		{"header and end", "Content-Length: 5\r\n", nil, "", io.ErrUnexpectedEOF},
		{"negative", "Content-Length: -5\r\n\r\n", nil, "Content-Length: -5\n", io.EOF},
		{"too long", "Content-Length: 99999999999\r\n\r\n", nil, "", nil},
		{"overflow", "Content-Length: 99999999999999999999999\r\n\r\n{}", nil, "Content-Length: 99999999999999999999999\n{}\n", io.ErrUnexpectedEOF},
		{"all noise", strings.Repeat("noise\n", 20000), nil, strings.Repeat("noise\n", maxNoise/6+1), nil},
		{"endless line", strings.Repeat("x", 100_000), nil, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var noise bytes.Buffer
			f := NewHeaders(iotest.OneByteReader(strings.NewReader(tt.input)), io.Discard, &noise, 64<<20)
			for _, want := range tt.want {
				if got, err := f.Read(); err != nil || string(got) != want {
					t.Fatalf("got %q, %v; want %q", got, err, want)
				}
			}
			got, err := f.Read()
			if err == nil || (tt.err != nil && !errors.Is(err, tt.err)) {
				t.Errorf("then %q, %v; want %v", got, err, tt.err)
			}
			if tt.name != "endless line" && noise.String() != tt.noise {
				t.Errorf("noise %q", noise.String())
			}
		})
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}noise\nContent-Length: 3\r\n\r\n[1]"))
	f.Add([]byte("content-LENGTH:1\n\nx"))
	f.Fuzz(func(t *testing.T, input []byte) {
		r := NewHeaders(bytes.NewReader(input), io.Discard, io.Discard, 64<<20)
		total := 0
		for {
			content, err := r.Read()
			if err != nil {
				break
			}
			total += len(content)
		}
		if total > len(input) {
			t.Errorf("%d bytes from %d", total, len(input))
		}
		// A message is read back, also after other output.
		if len(input) > 0 && json.Valid(input) {
			var b bytes.Buffer
			b.WriteString("noise ")
			if err := NewHeaders(nil, &b, nil, 0).Write(input); err != nil {
				t.Fatal(err)
			}
			if got, err := NewHeaders(&b, nil, io.Discard, 64<<20).Read(); err != nil || !bytes.Equal(got, input) {
				t.Errorf("got %q, %v", got, err)
			}
		}
	})
}
