package runner

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/environ"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

const (
	// maxLine bounds a line of a runner's; the rest of a longer one is dropped.
	maxLine = 16 << 20
	// endWithin is how long a runner may take to go when it is asked to.
	endWithin = time.Second
)

// output is a line of one of the streams.
type output struct {
	text   string
	stderr bool
}

// process is one run of the runner.
type process struct {
	group *program.Group
	lines chan output // closed when both streams have ended
	wg    sync.WaitGroup
}

// start runs the program in the workspace and hands it the request, as a file
// that no other process sees: a pipe that is closed would tell the supervisor that
// the bridge has died.
func start(o Options, dir string, request []byte) (*process, error) {
	c, err := program.New(program.Place{Dir: dir, Env: environ.Plain(o.Env, true)}, o.Program, o.Args...)
	if err != nil {
		return nil, err
	}
	in, err := requestFile(o.Records, request)
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), outR.Close(), outW.Close())
	}
	g, err := c.Start(program.Streams{In: in, Out: outW, Err: errW}, func() (*supervise.Tree, error) { return supervise.NewTree(o.Records, o.Self) })
	err = errors.Join(err, in.Close(), outW.Close(), errW.Close())
	if err != nil {
		return nil, errors.Join(err, outR.Close(), errR.Close())
	}
	p := &process{group: g, lines: make(chan output, 64)}
	var streams sync.WaitGroup
	streams.Go(func() { p.read(outR, false) })
	streams.Go(func() { p.read(errR, true) })
	p.wg.Go(func() {
		streams.Wait()
		close(p.lines)
	})
	return p, nil
}

// requestFile returns an open file that holds the request. Its name is removed
// where the system allows it.
func requestFile(dir string, request []byte) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "request-*")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(request)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if rmErr := os.Remove(f.Name()); rmErr != nil && runtime.GOOS != "windows" {
		err = errors.Join(err, rmErr)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (p *process) read(r *os.File, stderr bool) {
	defer func() { _ = r.Close() }() // only read from
	in := bufio.NewReaderSize(r, 64<<10)
	var b strings.Builder
	for {
		part, err := in.ReadSlice('\n')
		if room := maxLine - b.Len(); len(part) > room {
			part = part[:max(0, room)]
		}
		b.Write(part)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if text := strings.TrimRight(b.String(), "\r\n"); text != "" {
			p.lines <- output{strings.ToValidUTF8(text, "\uFFFD"), stderr}
		}
		b.Reset()
		if err != nil {
			if !errors.Is(err, io.EOF) && !stderr {
				p.lines <- output{"reading the runner's output: " + err.Error(), true}
			}
			return
		}
	}
}

// end makes the runner go, with all that it started, and waits for it.
func (p *process) end(ctx context.Context) error {
	err := p.group.End(ctx, endWithin)
	for range p.lines { // there is no other reader
		continue
	}
	p.wg.Wait()
	return err
}
