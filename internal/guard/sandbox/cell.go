package sandbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Cell is the sandbox of one workspace's programs.
type Cell struct {
	Wall *Wall
	// Plan is what they may see and change now.
	Plan func(context.Context) (*bridge.Confinement, error)
	// Files are those that configure agents, editors or git. New ones are moved
	// to the directory Withheld.
	Files    Watch
	Withheld string
}

// Wrap puts a command in the sandbox.
func (c *Cell) Wrap(ctx context.Context, made program.Command, grant *bridge.Confinement) (program.Command, error) {
	conf, err := c.Plan(ctx)
	switch {
	case err != nil:
		return made, err
	case conf == nil: // the guard judged it as one that is confined
		return made, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the sandbox is gone", Remedy: "Restart copilot-bridge."}
	case grant != nil:
		wider := conf.With(*grant)
		conf = &wider
	}
	return c.Wall.Wrap(made, *conf)
}

// WrapReader puts a command in the sandbox that cannot write the workspace. Only
// what a program builds for itself goes elsewhere.
func (c *Cell) WrapReader(ctx context.Context, made program.Command) (program.Command, error) {
	conf, err := c.Plan(ctx)
	if err != nil || conf == nil {
		return c.Wrap(ctx, made, nil)
	}
	return c.Wall.Wrap(made, Still(*conf, c.Files.Root))
}

// Watch lists the configuration files of the workspace. The function it returns
// moves away those that were added since.
func (c *Cell) Watch() func() (string, error) {
	before := c.Files.Now()
	return func() (string, error) {
		moved, err := c.Files.Withhold(before, c.Withheld)
		if len(moved) == 0 {
			return "", err
		}
		return fmt.Sprintf("copilot-bridge: %s would configure agents, editors or git, and nobody agreed to that. It was moved to %s.",
			strings.Join(moved, ", "), c.Withheld), err
	}
}
