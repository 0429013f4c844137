package git

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Objects reads objects one after the other, with one git for all of them. It is
// used by one goroutine, which closes it.
type Objects struct {
	piped *program.Piped
	out   *bufio.Reader
	stop  func() bool
}

// Objects starts a git that reads from the repository, and from what is incoming
// if that is not nil. It ends with ctx.
func (r *Repository) Objects(ctx context.Context, in *Incoming) (*Objects, error) {
	call := Call{Incoming: in}
	tree, env := r.onView(call)
	c, err := program.New(program.Place{Dir: tree, Env: env}, "git", "cat-file", "--batch")
	if confine := r.confined(call); err == nil && confine != nil {
		c, err = confine(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	p, err := c.Pipe(nil)
	if err != nil {
		return nil, err
	}
	_ = p.Err.Close()                                                                                // what it cannot read it says on Out
	return &Objects{p, bufio.NewReader(p.Out), context.AfterFunc(ctx, func() { _ = p.Kill() })}, nil // Close sees the failure
}

// Read returns an object and its kind, "" if there is none of that name. One with
// more bytes than most is CodeBusy.
func (o *Objects) Read(name string, most int64) (kind string, data []byte, err error) {
	if _, err := hex.DecodeString(name); err != nil {
		return "", nil, err
	}
	if _, err := io.WriteString(o.piped.In, name+"\n"); err != nil {
		return "", nil, err
	}
	head, err := o.out.ReadString('\n')
	if err != nil {
		return "", nil, fmt.Errorf("git cat-file: %w", err)
	}
	words := strings.Fields(head)
	if len(words) != 3 {
		return "", nil, nil
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return "", nil, err
	}
	if size > most {
		return "", nil, &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("a %s has %d bytes, and the limit is %d", words[1], size, most)}
	}
	data = make([]byte, size+1) // and a line's end
	if _, err := io.ReadFull(o.out, data); err != nil {
		return "", nil, fmt.Errorf("git cat-file: %w", err)
	}
	return words[1], data[:size], nil
}

// Close ends git.
func (o *Objects) Close() error {
	o.stop()
	err := errors.Join(o.piped.In.Close(), o.piped.Out.Close(), o.piped.Kill())
	<-o.piped.Done()
	return err
}
