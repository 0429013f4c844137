package config

import "strings"

// didYouMean returns a hint to append to a complaint about an unknown key, or
// "" if no setting is like it.
func didYouMean(table []setting, key string) string {
	best, least := "", max(2, len(key)/3)+1
	for _, s := range table {
		if s.env == key || strings.HasSuffix(s.key, "."+key) {
			best = s.key
			break
		}
		if d := distance(s.key, key, least); d < least {
			best, least = s.key, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + quote(best) + "?"
}

// distance is the number of bytes to insert, delete or replace to get from a
// to b, or limit if it is no smaller than that.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return min(row[len(b)], limit)
}

func isGroup(table []setting, key string) bool { return firstOf(table, key) != "" }

// firstOf returns the first setting of a group, or "".
func firstOf(table []setting, group string) string {
	for _, s := range table {
		if strings.HasPrefix(s.key, group+".") {
			return s.key
		}
	}
	return ""
}
