package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

// vscode looks for VS Code, which nobody needs to have, its extension, and the
// windows in which a bridge runs.
func (v *validation) vscode(ctx context.Context, cfg *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var said []string
	if editor, err := v.p.findEditor("", ""); err != nil {
		said = append(said, "not found, and not needed")
	} else if has, err := v.p.hasExtension(ctx, editor); err != nil {
		said = append(said, editor+" does not say whether it has the extension")
	} else if has {
		said = append(said, "the extension is installed in "+editor)
	} else {
		said = append(said, editor+" is there, without the extension (copilot-bridge register vscode)")
	}
	windows, err := app.Windows(ctx, cfg)
	if err != nil {
		v.warn("vscode", "the list of windows cannot be read: "+err.Error(), "see that "+cfg.Path("windows")+" can be")
		return
	}
	for _, w := range windows {
		var folders []string
		for _, f := range w.Folders {
			folders = append(folders, shorten(f, "", v.p.env.HomeDir))
		}
		if len(folders) == 0 {
			folders = []string{"no folder"}
		}
		said = append(said, fmt.Sprintf("a window answers at %s: %s (process %d)", w.URL, strings.Join(folders, ", "), w.PID))
	}
	v.ok("vscode", "%s", strings.Join(said, "\n"))
}
