package policy

import "strings"

// didYouMean returns a hint to append to a complaint about an unknown key, or
// "" if no key is like it.
func didYouMean(key string, known []string) string {
	best, least := "", max(2, len(key)/3)+1
	for _, k := range known {
		if strings.EqualFold(k, strings.ReplaceAll(key, "_", "")) {
			best = k
			break
		}
		if d := distance(strings.ToLower(k), strings.ToLower(key)); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return "; there are " + strings.Join(known, ", ")
	}
	return "; did you mean " + quote(best) + "?"
}

// distance is the number of bytes to insert, delete or replace to get from a
// to b. Names are short; what is not a name is far from all of them.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
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
	return row[len(b)]
}
