//go:build unix

package guard_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

func TestQuick(t *testing.T) {
	y := layYard(t)
	g := y.gate(t)
	for _, gr := range table(t, "attempts.yaml") {
		for _, c := range gr.calls() {
			args := y.fill(t, c)
			if d := g.Before(context.Background(), bridge.ToolCall{Name: gr.Tool, Args: any(args)}); d.Verdict == bridge.Allow {
				fmt.Fprintln(os.Stderr, "ALLOWED", gr.Group, args, d.Reason)
			} else if !strings.Contains(d.Reason, gr.Why) {
				fmt.Fprintln(os.Stderr, "WHY", gr.Group, args, d.Reason)
			} else if os.Getenv("SHOW") != "" {
				fmt.Fprintln(os.Stderr, "  ", args["command"], args["path"], "::", d.Reason)
			}
		}
	}
	for _, gr := range table(t, "ordinary.yaml") {
		for _, c := range gr.calls() {
			args := y.fill(t, c)
			if d := g.Before(context.Background(), bridge.ToolCall{Name: gr.Tool, Args: any(args)}); d.Verdict != bridge.Allow {
				fmt.Fprintln(os.Stderr, "DENIED", args, d.Reason)
			}
		}
	}
}
