//go:build !linux

package search

import (
	"context"
	"io"
	"os"
	"os/exec"
)

// attach makes an ordinary pipe the output of cmd. The end of the context,
// which kills cmd, ends it.
func attach(_ context.Context, cmd *exec.Cmd) (r io.ReadCloser, pause func(), err error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stdout = writer
	return reader, nil, nil
}
