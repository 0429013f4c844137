package httpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// KeptToken reads the token of a file, or makes one.
func KeptToken(ctx context.Context, file string) (token string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	unlock, err := durable.Lock(ctx, file+".lock")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	data, err := durable.ReadFile(file)
	if token = strings.TrimSpace(string(data)); err == nil && token != "" {
		return token, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	token = rand.Text()
	return token, durable.WriteFile(file, []byte(token+"\n"), 0o600)
}
