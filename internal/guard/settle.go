package guard

import (
	"maps"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// settled returns the arguments of a file tool with its path replaced by the
// one that was judged, if that is written differently, else nil. The runtime
// opens the file by name some time later: a link that is turned round in
// between then leads nowhere else. (A real directory that is replaced by a
// link meanwhile still does; see strayed and docs/guides/security.md.)
func (g *Guard) settled(call bridge.ToolCall) any {
	if k := known[call.Name]; k != policy.KindRead && k != policy.KindWrite {
		return nil
	}
	args, _ := call.Args.(map[string]any)
	name, ok := args["path"].(string)
	if !ok {
		return nil
	}
	res, err := g.here.Resolve(name)
	if err != nil || !res.Inside {
		return nil // nothing was said against it, so it is a pattern or not a path
	}
	at := name
	if !filepath.IsAbs(at) {
		at = filepath.Join(g.here.Base(), at)
	}
	if filepath.Clean(at) == res.Abs {
		return nil
	}
	out := maps.Clone(args)
	out["path"] = res.Abs
	return out
}
