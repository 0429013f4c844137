package copilotruntime

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The handshake is the one that the Go SDK makes when it starts, connect and
// then status.get, over the same framing. It is written out here because the
// SDK keeps the process it starts to itself: it neither puts it in a group
// nor waits for it when the start fails, and tells what went wrong only as
// text. A test compares the outcome with the SDK's.

// Limits on what an unknown program can make us read.
const (
	headerLineLimit = 4 << 10
	headerLines     = 16
	frameLimit      = 1 << 20
	messagesLimit   = 100
)

var errEnded = errors.New("it ended before it answered")

// protocolError says that the program answered with something else than the
// protocol's messages.
type protocolError struct{ said string }

func (e *protocolError) Error() string {
	return fmt.Sprintf("it does not speak Copilot's protocol; it answered %q", e.said)
}

// refusalError is a JSON-RPC error in answer to the handshake.
type refusalError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *refusalError) Error() string {
	return fmt.Sprintf("it refused the handshake: %s (%d)", e.Message, e.Code)
}

// unknownMethod is how runtimes of protocol 3 that are older than connect
// answer to it; the SDK accepts them too.
func (e *refusalError) unknownMethod() bool { return e.Code == -32601 }

type request struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      int            `json:"id"`
	Method  string         `json:"method"`
	Params  map[string]any `json:"params"`
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *refusalError   `json:"error"`
}

// handshake asks the program behind w and r who it is.
func handshake(w io.Writer, r io.Reader) (Status, error) {
	in := bufio.NewReaderSize(r, headerLineLimit)
	if _, err := call(w, in, request{ID: 1, Method: "connect"}); err != nil {
		var refusal *refusalError
		if !errors.As(err, &refusal) || !refusal.unknownMethod() {
			return Status{}, err
		}
	}
	result, err := call(w, in, request{ID: 2, Method: "status.get"})
	if err != nil {
		return Status{}, err
	}
	var answer struct {
		Version         string `json:"version"`
		ProtocolVersion int    `json:"protocolVersion"`
	}
	if err := json.Unmarshal(result, &answer); err != nil {
		return Status{}, &protocolError{said: excerpt(result)}
	}
	return Status{Version: answer.Version, Protocol: answer.ProtocolVersion}, nil
}

// call sends one request and returns the result that answers it, passing over
// the other side's notifications and requests.
func call(w io.Writer, in *bufio.Reader, req request) (json.RawMessage, error) {
	req.JSONRPC, req.Params = "2.0", map[string]any{}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	// A program that closed its input may have said why, so what counts is
	// what can be read; if it is gone, that shows there too.
	_, _ = fmt.Fprintf(w, "Content-Length: %d\r\n\r\n%s", len(body), body)
	for range messagesLimit {
		frame, err := readFrame(in)
		if err != nil {
			return nil, err
		}
		var msg message
		if err := json.Unmarshal(frame, &msg); err != nil {
			return nil, &protocolError{said: excerpt(frame)}
		}
		switch {
		case msg.Method == req.Method:
			return nil, &protocolError{said: "our own request"}
		case msg.Method != "" || string(msg.ID) != strconv.Itoa(req.ID):
			continue
		case msg.Error != nil:
			return nil, msg.Error
		default:
			return msg.Result, nil
		}
	}
	return nil, &protocolError{said: "many messages, but not the one asked for"}
}

// readFrame reads one message: header lines, an empty line, the body.
func readFrame(in *bufio.Reader) ([]byte, error) {
	length := -1
	for range headerLines {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || err != nil && len(line) > 0 {
			return nil, &protocolError{said: excerpt(line)}
		}
		if err != nil {
			return nil, errEnded
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 && length >= 0 {
			return readBody(in, length)
		}
		name, value, ok := strings.Cut(string(line), ":")
		if !ok {
			return nil, &protocolError{said: excerpt(line)}
		}
		if !strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			continue
		}
		length, err = strconv.Atoi(strings.TrimSpace(value))
		if err != nil || length < 0 || length > frameLimit {
			return nil, &protocolError{said: excerpt(line)}
		}
	}
	return nil, &protocolError{said: "headers without end"}
}

func readBody(in *bufio.Reader, length int) ([]byte, error) {
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, errEnded
	}
	return body, nil
}

// excerpt is the beginning of something unexpected, for a message.
func excerpt(data []byte) string {
	const most = 80
	return strings.ToValidUTF8(string(bytes.TrimSpace(data[:min(len(data), most)])), "?")
}
