// Package openclawplugin is OpenClaw's plugin as files: JavaScript that hands
// calls on to this program, see index.js. The binary carries it, so that
// `copilot-bridge register openclaw` can install it anywhere.
package openclawplugin

import (
	"embed"
	"io/fs"
)

// ID is the plugin's name to OpenClaw.
const ID = "copilot-bridge"

//go:generate sh -c "go run ../../cmd/copilot-bridge mcp plugin --tools > tools.json.new && mv tools.json.new tools.json"

//go:embed package.json openclaw.plugin.json index.js bridge.js tools.json
var files embed.FS

// Files are the plugin's files, all in one directory.
func Files() fs.FS { return files }
