// Command copilot-bridge puts GitHub Copilot's agent runtime behind the
// protocols that a developer's tools already speak. All of it is in
// internal/cli.
package main

import (
	"os"

	"github.com/copilot-bridge/copilot-bridge/internal/cli"
)

func main() { os.Exit(cli.Main(cli.System())) }
