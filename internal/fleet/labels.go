package fleet

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

var labelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}(=[A-Za-z0-9._/:-]{0,63})?$`)

// IsLabel reports whether a text has the form of a label: a name or name=value.
func IsLabel(label string) bool { return labelForm.MatchString(label) }

// AnyWorker stands for a worker with whatever labels.
const AnyWorker = "any"

// ParseWorker reads which worker is wanted: any, or labels with commas between.
func ParseWorker(wanted string) ([]string, error) {
	if wanted == AnyWorker {
		return nil, nil
	}
	labels := strings.Split(wanted, ",")
	for i, l := range labels {
		if labels[i] = strings.TrimSpace(l); !IsLabel(labels[i]) {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%.80q is no label of a worker", l),
				Remedy: "give a name or name=value, such as gpu=yes, several with commas between, or " + AnyWorker}
		}
	}
	return labels, nil
}

// Offers is what a worker has to offer: the labels given with its invitation and,
// where those do not say otherwise, its own.
func Offers(given []string, own map[string]string) []string {
	out := slices.Clone(given)
	for _, key := range slices.Sorted(maps.Keys(own)) {
		fixed := slices.ContainsFunc(given, func(label string) bool { k, _, _ := strings.Cut(label, "="); return k == key })
		switch value := own[key]; {
		case fixed:
		case value == "":
			out = append(out, key)
		default:
			out = append(out, key+"="+value)
		}
	}
	return out
}

// Fits reports whether a worker with these offers may do what asks for labels.
// Asking for k takes every value of k.
func Fits(offers, asked []string) bool {
	for _, want := range asked {
		if !slices.ContainsFunc(offers, func(have string) bool {
			return have == want || !strings.Contains(want, "=") && strings.HasPrefix(have, want+"=")
		}) {
			return false
		}
	}
	return true
}
