package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// path resolves a path that the user gave.
func (p *program) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.env.Dir, name)
}

// short is a path with ~ for the user's home.
func (p *program) short(path string) string { return view.Shorten(path, "", p.env.HomeDir) }

// directory resolves and checks a directory to work in. flag is the one that
// names another.
func (p *program) directory(dir, flag string) (string, error) {
	dir, err := filepath.Abs(p.path(dir))
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("the working directory %s does not exist", dir)
	case err != nil:
		err = fmt.Errorf("the working directory cannot be used: %w", err)
	case !info.IsDir():
		err = fmt.Errorf("%s is not a directory", dir)
	default:
		return dir, engine.CheckDirectory(dir)
	}
	return "", &bridge.Error{Code: bridge.CodeInvalid, Message: err.Error(), Remedy: "name an existing directory with " + flag}
}

// openFile opens a file, or standard input for "-".
func (p *program) openFile(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(p.env.Stdin), nil
	}
	return os.Open(p.path(name))
}

// read reads a file, or standard input for "-", of so many bytes at most.
func (p *program) read(name string, most int64) ([]byte, error) {
	in, err := p.openFile(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err = errors.Join(err, in.Close()); err == nil && int64(len(data)) > most {
		err = &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("it is longer than %d MiB", most>>20), Remedy: "shorten it"}
	}
	return data, err
}

// readStdin reads what an argument "-" stands for.
func (p *program) readStdin(what string, most int64) ([]byte, error) {
	data, err := p.read("-", most)
	if err != nil {
		err = fmt.Errorf("read the %s on standard input: %w", what, err)
	}
	return data, err
}

// pathCause is an error about a path without the path, which is named already.
func pathCause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
