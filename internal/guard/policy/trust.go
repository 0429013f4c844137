package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// TrustFile is the name of the trust record in the bridge's directory.
const TrustFile = "trust.json"

const (
	trustVersion = 1
	// lockWait bounds the wait for other processes where the caller's context
	// does not.
	lockWait = 30 * time.Second
	// maxTrustSize is far beyond any honest record.
	maxTrustSize = 8 << 20
)

// Trust is the record of the workspace files (policy files and .env files)
// that the user has read and trusts: each by its path and the hash of its bytes,
// so that any change revokes. The record lies at Path. It keeps nothing in
// memory; any number of processes and goroutines may use one record.
type Trust struct {
	Path string
}

// TrustEntry is a file in the record.
type TrustEntry struct {
	Path   string    `json:"-"`
	SHA256 string    `json:"sha256"`
	Added  time.Time `json:"added"`
}

type trustRecord struct {
	Version int                   `json:"version"`
	Files   map[string]TrustEntry `json:"files"`
}

// Trusted reports whether the file at path is trusted with exactly these
// bytes. It looks at data, not at the file: the parsed bytes count.
func (t Trust) Trusted(path string, data []byte) (bool, error) {
	record, err := t.read()
	if err != nil {
		return false, err
	}
	key, err := trustKey(path)
	if err != nil {
		return false, err
	}
	entry, ok := record.Files[key]
	return ok && entry.SHA256 == hash(data), nil
}

// Add trusts the file at path with these bytes, in place of any others.
func (t Trust) Add(ctx context.Context, path string, data []byte) error {
	key, err := trustKey(path)
	if err != nil {
		return err
	}
	return t.change(ctx, func(r *trustRecord) bool {
		if old, ok := r.Files[key]; ok && old.SHA256 == hash(data) {
			return false
		}
		r.Files[key] = TrustEntry{SHA256: hash(data), Added: time.Now().UTC().Truncate(time.Second)}
		return true
	})
}

// Remove ends the trust in the file at path, and reports whether it was in the
// record.
func (t Trust) Remove(ctx context.Context, path string) (bool, error) {
	key, err := trustKey(path)
	if err != nil {
		// Its directory may be gone; what the record calls it is enough.
		key = path
	}
	removed := false
	err = t.change(ctx, func(r *trustRecord) bool {
		_, removed = r.Files[key]
		delete(r.Files, key)
		return removed
	})
	return removed, err
}

// List returns the record, by path.
func (t Trust) List() ([]TrustEntry, error) {
	record, err := t.read()
	if err != nil {
		return nil, err
	}
	all := make([]TrustEntry, 0, len(record.Files))
	for path, entry := range record.Files {
		entry.Path = path
		all = append(all, entry)
	}
	slices.SortStableFunc(all, func(a, b TrustEntry) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// change applies f under the record's lock and writes if f says so.
func (t Trust) change(ctx context.Context, f func(*trustRecord) bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := durable.Lock(ctx, t.Path+".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	record, err := t.read()
	if err != nil {
		return err
	}
	if !f(&record) {
		return nil
	}
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the trust record: %w", err)
	}
	return durable.WriteFile(t.Path, append(data, '\n'), 0o600)
}

func (t Trust) read() (trustRecord, error) {
	record := trustRecord{Version: trustVersion, Files: map[string]TrustEntry{}}
	data, err := durable.ReadFile(t.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return record, nil
	case err != nil:
		return record, t.broken(err)
	case len(data) > maxTrustSize:
		return record, t.broken(fmt.Errorf("it is larger than %d bytes", maxTrustSize))
	}
	if err := json.Unmarshal(data, &record); err != nil {
		return record, t.broken(err)
	}
	if record.Version != trustVersion {
		return record, t.broken(fmt.Errorf("it has version %d, and this program knows version %d", record.Version, trustVersion))
	}
	if record.Files == nil {
		record.Files = map[string]TrustEntry{}
	}
	return record, nil
}

func (t Trust) broken(err error) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: "the trust record " + t.Path + " cannot be used", Cause: err,
		Remedy: "Remove it and trust your workspaces again with: copilot-bridge trust DIR"}
}

// trustKey is the one name of a file. The file itself may be a link; what
// counts is where it is found.
func trustKey(path string) (string, error) {
	dir, err := canonicalDir(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
