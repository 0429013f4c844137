package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

const (
	// maxPiped is how much of a piped input goes along with a task. More would
	// fill the model's context.
	maxPiped = 256 << 10
	// pipedWithin is how long the first byte of a piped input is waited for: a
	// program may have been started with a pipe that nobody writes to or closes.
	pipedWithin = 3 * time.Second
)

// pipedInput reads what was piped to a command whose task is given by words, as
// in `cat f | copilot-bridge run "explain this"`; "" for nothing. What is cut or
// ignored is said.
func (p *program) pipedInput(ctx context.Context, within time.Duration) (string, error) {
	if !isPiped(p.env.Stdin) {
		return "", nil
	}
	data, err := readWithin(ctx, p.env.Stdin, maxPiped+1, within)
	if errors.Is(err, context.DeadlineExceeded) {
		p.console.Warn(fmt.Sprintf("nothing came on standard input within %s; it is ignored. To wait for it, give the task as \"-\"", within))
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(data) > maxPiped {
		end := bytes.LastIndexByte(data[:maxPiped], '\n') + 1
		if end == 0 {
			for end = maxPiped; !utf8.RuneStart(data[end]) && end > maxPiped-utf8.UTFMax; {
				end--
			}
		}
		data = data[:end]
		p.console.Warn(fmt.Sprintf("the input is longer than %d KiB; only its first %d bytes are used", maxPiped>>10, len(data)))
	}
	if bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "the input is not UTF-8 text", Remedy: "send a file along with --attach FILE"}
	}
	return strings.TrimRight(string(data), "\n"), nil
}

// isPiped says whether a stream is a pipe or a file, neither a terminal nor
// /dev/null.
func isPiped(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return in != nil
	}
	info, err := f.Stat()
	return err == nil && (info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular())
}

// readWithin reads at most so many bytes, if the first comes in time. A read
// that nothing can end ends with the process.
func readWithin(ctx context.Context, in io.Reader, most int64, within time.Duration) ([]byte, error) {
	type read struct {
		data []byte
		err  error
	}
	began, ended := make(chan struct{}), make(chan read, 1)
	go func() {
		first := make([]byte, 4096)
		n, err := in.Read(first)
		close(began)
		if err == nil {
			var rest []byte
			rest, err = io.ReadAll(io.LimitReader(in, most-int64(n)))
			ended <- read{append(first[:n], rest...), err}
			return
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		ended <- read{first[:n], err}
	}()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-began:
	case <-late.C:
		return nil, context.DeadlineExceeded
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case r := <-ended:
		return r.data, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// withInput adds a piped input to a task.
func withInput(task, input string) string {
	if input == "" {
		return task
	}
	return task + "\n\nThe input:\n" + approval.Fenced(input)
}
