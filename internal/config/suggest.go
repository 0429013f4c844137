package config

import (
	"cmp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// didYouMean returns a hint to append to a complaint about an unknown key, or
// "" if no setting is like it.
func didYouMean(table []setting, key string) string {
	if best := nearestKey(table, key); best != "" {
		return "; did you mean " + quote(best) + "?"
	}
	return ""
}

// nearestKey returns the setting that an unknown key may mean, or "".
func nearestKey(table []setting, key string) string {
	keys := make([]string, len(table))
	best := ""
	for i, s := range table {
		keys[i] = s.key
		if best == "" && (s.env == key || strings.HasSuffix(s.key, "."+key)) {
			best = s.key
		}
	}
	return cmp.Or(best, text.Nearest(key, keys))
}

// firstOf returns the first setting of a group, or "".
func firstOf(table []setting, group string) string {
	for _, s := range table {
		if strings.HasPrefix(s.key, group+".") {
			return s.key
		}
	}
	return ""
}
