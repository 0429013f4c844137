package config

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// FilePath is where config.yaml is, also if nothing in it can be used.
func FilePath(o Options) (string, error) {
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "the current directory does not exist any more", Cause: err,
			Remedy: "change into a directory that exists"}
	}
	l := &loader{opts: o, bad: map[string]bool{}, cfg: &Config{origins: map[string]Origin{}}}
	l.table = settings(l.cfg)
	l.readFlags()
	l.readEnviron()
	l.apply(find(l.table, "home"))
	l.defaultHome()
	if l.cfg.Home == "" {
		return "", l.failure()
	}
	return l.cfg.Path(fileName), nil
}

// lockTime bounds the wait for another command that changes the file.
const lockTime = 10 * time.Second

// Rewrite replaces config.yaml with what change makes of its text, which is nil
// if there is no file. It is written only if the whole configuration is valid
// with it, and for its user's eyes alone. A link to the file stays a link.
func Rewrite(ctx context.Context, o Options, change func(path string, old []byte) ([]byte, error)) (cfg *Config, err error) {
	path, err := FilePath(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	unlock, err := durable.Lock(ctx, filepath.Join(filepath.Dir(path), "config.lock"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	old, err := readLimited(path)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: path + " " + err.Error()}
	}
	data, err := change(path, old)
	if err != nil {
		return nil, err
	}
	text := string(data)
	o.File = &text
	if cfg, err = Load(o); err != nil || old != nil && bytes.Equal(old, data) {
		return cfg, err
	}
	return cfg, durable.WriteFile(path, data, 0o600)
}
