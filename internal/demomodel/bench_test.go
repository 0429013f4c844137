package demomodel

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// BenchmarkStream is a streamed reply of 20 chunks over a kept-alive
// connection: what the runtime asks for in every turn.
func BenchmarkStream(b *testing.B) {
	s := start(b, WithJournal(0))
	chunks := make([]string, 20)
	for i := range chunks {
		chunks[i] = "word "
	}
	reply := Reply{Chunks(chunks...)}
	s.Handle(func(Request) (Reply, bool) { return reply, true })
	body := runtimeRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL()+"/chat/completions", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.Key())
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	body := runtimeRequest(b)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeRequest(body); err != nil {
			b.Fatal(err)
		}
	}
}
