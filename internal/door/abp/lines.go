package abp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/copilot-bridge/copilot-bridge/internal/door/abp/contract"
)

// line is a line of the host, or why it is none.
type line struct {
	text []byte
	err  error
}

func (l line) parse() (contract.Envelope, error) {
	if l.err != nil {
		return nil, l.err
	}
	return contract.ParseHostLine(l.text)
}

var errLong = errors.New("the line is longer than 16 MiB")

// readLines hands over line by line until in or ctx ends, and closes to. Blank
// lines say nothing.
func readLines(ctx context.Context, in io.Reader, to chan<- line) {
	defer close(to)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		text, err := readLine(r)
		if text = bytes.TrimSpace(text); len(text) > 0 || errors.Is(err, errLong) {
			l := line{text: text}
			if errors.Is(err, errLong) {
				l, err = line{err: errLong}, nil
			}
			select {
			case to <- l:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine returns a line of its own. Of one that is too long nothing is kept.
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(text)+len(part) > contract.MaxLine+1; long {
			text = nil
		} else {
			text = append(text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long && (err == nil || errors.Is(err, io.EOF)) {
			return nil, errLong
		}
		return text, err
	}
}
