package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// patience is how long a client may take to accept one piece of an answer;
// piece is small enough for any client that reads at all.
const (
	patience = 30 * time.Second
	piece    = 32 << 10
)

// JSON writes v with a status. A client that does not read it is cut; there
// is nobody to report that to.
func JSON(w http.ResponseWriter, status int, v any) {
	data, err := encode(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer could not be encoded","type":"server_error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_ = send(w, http.NewResponseController(w), data)
}

// encode returns v as JSON in one line, without the escapes that only HTML
// needs.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// send writes data piece by piece, each with a time limit of its own, so that
// a client is cut for standing still and not for being far away.
func send(w http.ResponseWriter, rc *http.ResponseController, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), piece)
		if err := extend(rc); err != nil {
			return err
		}
		if _, err := w.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// extend gives the client a new time limit. Writers that know of none, such
// as recorders in tests, need none.
func extend(rc *http.ResponseController) error {
	if err := rc.SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// gone is the error for a client that cannot be written to any more.
func gone(err error) *bridge.Error {
	message := "the client went away"
	if errors.Is(err, os.ErrDeadlineExceeded) {
		message = "the client did not read for " + patience.String()
	}
	return &bridge.Error{Code: bridge.CodeCanceled, Message: message, Cause: err}
}
