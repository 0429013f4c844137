package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// The names of policy files: at the root of a workspace, and in the bridge's
// own directory.
const (
	WorkspaceFile = ".agent-policy.yaml"
	UserFile      = "policy.yaml"
)

// misspelt are names that would be ignored without a word, and with them the
// rules inside.
var misspelt = map[string]string{WorkspaceFile: ".agent-policy.yml", UserFile: "policy.yml"}

// File is a policy file as it was read. Rules come from exactly the bytes in
// Data, so that trust in them is trust in the rules in force.
type File struct {
	Path  string // absolute, with the links of its directory followed
	Data  []byte
	Rules Rules
}

// Layer returns the file's rules for Combine.
func (f *File) Layer(trusted bool) Layer { return Layer{Rules: f.Rules, Trusted: trusted} }

// LoadWorkspace reads the policy file at the root of a workspace. Without one
// it returns nil. A file that is there but cannot be read or understood is an
// error, and the caller must let nothing run: the file might forbid it. It may
// be a link only to a file inside the workspace.
func LoadWorkspace(dir string) (*File, error) { return load(dir, WorkspaceFile, openInside) }

// LoadUser reads the user's own policy file from the bridge's directory.
// Without one it returns nil. It is always to be trusted.
func LoadUser(home string) (*File, error) { return load(home, UserFile, openAnywhere) }

func load(dir, name string, open func(dir, name string) (*os.File, error)) (*File, error) {
	found, err := canonicalDir(dir)
	if errors.Is(err, fs.ErrNotExist) && name == UserFile {
		return nil, nil
	}
	path := filepath.Join(dir, name)
	if err != nil {
		return nil, unreadable(path, err)
	}
	path = filepath.Join(found, name)
	if _, err := os.Lstat(filepath.Join(found, misspelt[name])); err == nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: filepath.Join(found, misspelt[name]) + " would be ignored: the name of a policy file is " + name,
			Remedy: "Rename it to " + name + ", or remove it."}
	}
	f, err := open(found, name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, linkErr := os.Lstat(path); errors.Is(linkErr, fs.ErrNotExist) {
			return nil, nil
		}
		err = errors.New("it is a link to nothing")
	}
	if err != nil {
		return nil, unreadable(path, err)
	}
	data, err := readBounded(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, unreadable(path, err)
	}
	rules, err := ParseYAML(path, data)
	if err != nil {
		return nil, err
	}
	return &File{Path: path, Data: data, Rules: rules}, nil
}

func unreadable(path string, err error) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: "the policy file " + path + " cannot be read", Cause: err,
		Remedy: "Make it a regular file that can be read and does not lead elsewhere, or remove it; until then nothing runs under it."}
}

// openInside opens without ever leaving dir, whatever links are in the way. A
// pipe in the file's place does not make it wait.
func openInside(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if closeErr := root.Close(); err == nil && closeErr != nil {
		return nil, errors.Join(closeErr, f.Close())
	}
	return f, err
}

func openAnywhere(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func readBounded(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxFileSize {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxFileSize)
	}
	return data, nil
}

// canonicalDir is the one name of a directory.
func canonicalDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}
