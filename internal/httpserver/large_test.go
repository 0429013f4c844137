package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

const large = 40 << 20

// spaces is a body of JSON's white space.
func spaces(n int64) io.Reader { return io.LimitReader(blank{}, n) }

type blank struct{}

func (blank) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func decoding(limit int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v any
		if err := wire.Decode(w, r, limit, &v); err != nil {
			e := bridge.AsError(err)
			wire.JSON(w, wire.Status(e), e.Message)
			return
		}
		wire.JSON(w, 200, v)
	})
}

// TestRefusalReachesASender: clients that send the whole body before they read
// anything still find the answer.
func TestRefusalReachesASender(t *testing.T) {
	r := start(t, Options{Token: "t", Doors: map[string]http.Handler{"POST /x": decoding(32 << 20), "POST /small": decoding(1 << 10)}})
	for name, tc := range map[string]struct {
		head string
		want int
	}{
		"known length":         {"POST /x HTTP/1.1\r\nAuthorization: Bearer t\r\nContent-Length: %d\r\n", 413},
		"chunked":              {"POST /x HTTP/1.1\r\nAuthorization: Bearer t\r\nTransfer-Encoding: chunked\r\n", 413},
		"chunked, early":       {"POST /small HTTP/1.1\r\nAuthorization: Bearer t\r\nTransfer-Encoding: chunked\r\n", 413},
		"expects, sends":       {"POST /x HTTP/1.1\r\nAuthorization: Bearer t\r\nExpect: 100-continue\r\nContent-Length: %d\r\n", 413},
		"without a token":      {"POST /x HTTP/1.1\r\nContent-Length: %d\r\n", 401},
		"to a wrong path":      {"POST /nowhere HTTP/1.1\r\nAuthorization: Bearer t\r\nContent-Length: %d\r\n", 404},
		"what is not JSON":     {"POST /x HTTP/1.1\r\nAuthorization: Bearer t\r\nContent-Type: text/html\r\nContent-Length: %d\r\n", 415},
		"from an older client": {"POST /x HTTP/1.0\r\nAuthorization: Bearer t\r\nContent-Length: %d\r\n", 413},
	} {
		t.Run(name, func(t *testing.T) {
			conn := r.dial(t)
			head, body := tc.head, spaces(large)
			if strings.Contains(head, "%d") {
				head = fmt.Sprintf(head, large)
			} else {
				body = io.MultiReader(strings.NewReader(fmt.Sprintf("%x\r\n", large)), body, strings.NewReader("\r\n0\r\n\r\n"))
			}
			if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, head+"Host: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(struct{ io.Writer }{conn}, body); err != nil {
				t.Fatalf("after %d bytes: %v", n, err)
			}
			if status, text := readAnswer(t, conn); status != tc.want {
				t.Errorf("%d %s", status, text)
			}
		})
	}
}

// TestRefusalReachesClients does the same with a real client, which reads
// while it sends, and may wait to be told to.
func TestRefusalReachesClients(t *testing.T) {
	r := start(t, Options{Doors: map[string]http.Handler{"POST /x": decoding(32 << 20)}})
	for name, tc := range map[string]struct {
		length int64
		expect bool
	}{
		"known length": {large, false}, "chunked": {-1, false}, "waits, known length": {large, true}, "waits, chunked": {-1, true},
	} {
		t.Run(name, func(t *testing.T) {
			transport := &http.Transport{ExpectContinueTimeout: 5 * time.Second}
			defer transport.CloseIdleConnections()
			counted := &counter{Reader: spaces(large)}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL()+"/x", counted)
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = tc.length
			if tc.expect {
				req.Header.Set("Expect", "100-continue")
			}
			res, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "32 MiB") {
				t.Errorf("%d %s, %v", res.StatusCode, text, err)
			}
			_ = res.Body.Close()
			if tc.expect && tc.length > 0 && counted.n > 0 {
				t.Errorf("%d bytes were asked for in vain", counted.n)
			}
		})
	}
}

// TestRefusalLeavesTheConnection: after a request with an unread body the next
// one on the same connection is not cut.
func TestRefusalLeavesTheConnection(t *testing.T) {
	r := start(t, Options{Doors: map[string]http.Handler{"POST /x": http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.RawQuery == "refused" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			t.Error(err)
		}
		select {
		case <-q.Context().Done():
			t.Errorf("cut: %v", context.Cause(q.Context()))
		case <-time.After(10 * time.Millisecond): // long enough for the server to see a deadline
		}
	})}})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for range 50 {
		for _, query := range []string{"?refused", ""} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL()+"/x"+query, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, res.Body)
			if err = errors.Join(err, res.Body.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

type counter struct {
	io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// TestRefusedFloodIsCut: an unread body is read within bounds.
func TestRefusedFloodIsCut(t *testing.T) {
	r := start(t, Options{Doors: map[string]http.Handler{"POST /x": decoding(1 << 10)}})
	conn := r.dial(t)
	if _, err := io.WriteString(conn, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(leftoverWhole)); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(struct{ io.Writer }{conn}, spaces(2*leftoverBytes))
	if err == nil {
		t.Error("all of it was taken")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("not cut, but held after %d bytes", n)
	}
}
