package toolbus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// post answers one message, with status 200 for whatever JSON-RPC has an
// answer to and 204 if it has none.
func (d *door) post(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, &bridge.Error{Code: bridge.CodeInvalid, Message: "expected Content-Type: application/json"})
		return
	}
	message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, d.opts.MaxMessage))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusRequestEntityTooLarge, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the message is larger than %d bytes", large.Limit)})
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, &bridge.Error{Code: bridge.CodeInvalid, Message: "the body ended before it was complete"})
		return
	}
	to := &single{out: make(chan [][]byte, 1)}
	c := d.connect(r.Context(), to)
	c.handle(message)
	c.wait()
	c.end(nil)
	select {
	case answer := <-to.out:
		wire.JSON(w, http.StatusOK, json.RawMessage(bytes.Join(answer, nil)))
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// single keeps the answer to one message. There is never a second.
type single struct{ out chan [][]byte }

func (s *single) send(_ context.Context, message ...[]byte) error {
	s.out <- message
	return nil
}

func (s *single) offer([]byte)   {}
func (s *single) notifies() bool { return false }
