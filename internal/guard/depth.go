package guard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// DepthVariable carries the depth through the environment of what we start,
// so that a loop through other programs is noticed too.
const DepthVariable = "COPILOT_BRIDGE_DEPTH"

// MaxDepth is how deep a bridge may be called by what a bridge has started.
const MaxDepth = 3

// DepthOf reads the depth from an environment. A value that is no number
// counts as too deep: it was tampered with.
func DepthOf(environ []string) int {
	depth := 0
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, DepthVariable+"="); ok {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				return MaxDepth
			}
			depth = n
		}
	}
	return depth
}

// DepthArgument carries the depth in the arguments of the bridge's own tools.
const DepthArgument = "_depth"

// DepthOfArgs reads the depth from a tool's arguments. Any value but a whole
// number from 0 up counts as too deep.
func DepthOfArgs(args any) int {
	m, _ := args.(map[string]any)
	v, ok := m[DepthArgument]
	if !ok {
		return 0
	}
	if n, ok := v.(float64); ok && n >= 0 && n < MaxDepth && n == float64(int(n)) {
		return int(n)
	}
	return MaxDepth
}

// CheckDepth refuses to go deeper than MaxDepth.
func CheckDepth(depth int) error {
	if depth < MaxDepth {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("copilot-bridge was called from within itself %d times; that is a loop", depth),
		Remedy: "call it directly, or unset " + DepthVariable + " if you know that it is none"}
}
