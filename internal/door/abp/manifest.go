package abp

import (
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/abp/contract"
)

// manifest is what the agent says of itself, less what a sidecar cannot let it
// do. Every capability of the contract's guide is named, so that a host need
// not guess.
func manifest(of map[bridge.Capability]bridge.Support) contract.Manifest {
	out := contract.Manifest{}
	for _, c := range bridge.AllCapabilities() {
		s := of[c]
		if c == bridge.CapToolAskUser && s.Level > bridge.SupportRestricted {
			s = bridge.Support{Level: bridge.SupportRestricted, Reason: "a sidecar has nobody to ask"}
		}
		out[contract.Capability(c)] = support(s)
	}
	return out
}

func support(s bridge.Support) contract.Support {
	switch s.Level {
	case bridge.SupportNative:
		return contract.Support{Level: contract.Native}
	case bridge.SupportEmulated:
		return contract.Support{Level: contract.Emulated}
	case bridge.SupportRestricted:
		return contract.Support{Level: contract.Restricted, Reason: s.Reason}
	case bridge.SupportNone:
	}
	return contract.Support{Level: contract.Unsupported}
}

// unmet words the requirements that the manifest does not meet; "" if there
// are none.
func unmet(m contract.Manifest, needs []contract.Requirement) string {
	var out []string
	for _, n := range needs {
		s, ok := m[n.Capability]
		if !ok {
			s = contract.Support{Level: contract.Unsupported}
		}
		if s.Meets(n.Min) {
			continue
		}
		is := string(s.Level)
		if s.Reason != "" {
			is += ": " + s.Reason
		}
		out = append(out, fmt.Sprintf("%s is needed as %s and is %s", n.Capability, n.Min, is))
	}
	return strings.Join(out, "; ")
}
