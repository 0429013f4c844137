package lsp

import (
	"os"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// configureTypeScript names the TypeScript to use: that beside the server, or
// the one on PATH. Left alone, the server would run the workspace's own copy,
// and with it any code that was put there.
func configureTypeScript(m *Manager, server string) (any, error) {
	candidates := []string{server}
	for _, name := range []string{"tsserver", "tsc"} {
		if path, err := program.Find(name, program.Environ(m.opts.Env, m.dir)); err == nil && !m.contains(path) {
			candidates = append(candidates, path)
		}
	}
	for _, c := range candidates {
		resolved, err := filepath.EvalSymlinks(c)
		if err != nil {
			continue
		}
		dir := filepath.Dir(resolved)
		for _, lib := range []string{
			filepath.Join(dir, "..", "..", "typescript", "lib"), // …/node_modules/typescript-language-server/lib/cli.mjs
			filepath.Join(dir, "..", "lib"),                     // …/node_modules/typescript/bin/tsserver
			filepath.Join(dir, "..", "typescript", "lib"),       // …/node_modules/.bin, where links are scripts
		} {
			tsserver := filepath.Join(lib, "tsserver.js")
			if info, err := os.Stat(tsserver); err == nil && info.Mode().IsRegular() {
				return map[string]any{
					"hostInfo":                          "copilot-bridge",
					"disableAutomaticTypingAcquisition": true, // it would run npm
					"tsserver":                          map[string]any{"path": tsserver},
				}, nil
			}
		}
	}
	return nil, &bridge.Error{
		Code:    bridge.CodeUnsupported,
		Message: "typescript-language-server was found, but no TypeScript beside it",
		Remedy:  "Run `npm install -g typescript@5`.",
	}
}
