package fleet

import (
	"maps"
	"slices"
	"strings"
)

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
