package patch

import (
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// under keeps the sections of files below a directory, and makes their names
// relative to it. A section that leads out of it, or into it, is refused.
func under(sections []*section, dir string) ([]*section, error) {
	if dir == "" {
		return sections, nil
	}
	var kept []*section
	for _, s := range sections {
		inside, outside := false, false
		for _, name := range []*string{&s.old, &s.new} {
			if *name == "" {
				continue
			}
			rest, ok := strings.CutPrefix(*name, dir+"/")
			if inside, outside = inside || ok, outside || !ok; ok {
				*name = rest
			}
		}
		switch {
		case inside && outside:
			return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "the diff moves a file from one folder to another",
				Remedy: "Delete the one and create the other in its place."}
		case inside:
			kept = append(kept, s)
		}
	}
	return kept, nil
}
