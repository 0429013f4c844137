package rehearsal

import (
	"encoding/json"
	"regexp"
	"strings"
)

// The orchestrator's own words, by which its requests are known. The end to
// end tests hold both sides to them.
const (
	partHead  = "\nYour part, "
	partTail  = "\n\nWhen you have finished, "
	planHead  = "Divide the task below into parts"
	planStart = "\nThe task:\n"
)

// ownPart is what a message asks for itself: of a part of a larger task only
// the part, not what is said around it.
func ownPart(text string) string {
	at := strings.LastIndex(text, partHead)
	if at < 0 {
		return text
	}
	_, part, ok := strings.Cut(text[at+len(partHead):], ":\n")
	if !ok {
		return text
	}
	part, _, _ = strings.Cut(part, partTail)
	return strings.TrimSpace(part)
}

// pieces divide a task; one that comes after "then" waits for what is before.
var pieces = regexp.MustCompile(`(?i)\s*\n\s*|\s*;\s*|,?\s+(?:and\s+)?then\s+|[.!]\s+(?:then\s+)?|,?\s+and\s+`)

// planned divides a task into its simple requests, or leaves it whole if one
// of them cannot be understood by itself.
func planned(text string, offered func(string) bool) (Reply, bool) {
	if !strings.HasPrefix(text, planHead) {
		return nil, false
	}
	_, task, ok := strings.Cut(text, planStart)
	if !ok {
		return nil, false
	}
	type part struct {
		ID          string `json:"id"`
		Description string `json:"description"`
		Complexity  string `json:"estimatedComplexity"`
	}
	type need struct {
		Task      string   `json:"task"`
		DependsOn []string `json:"dependsOn"`
	}
	plan := struct {
		Tasks        []part `json:"tasks"`
		Dependencies []need `json:"dependencies"`
	}{Dependencies: []need{}}
	task = strings.TrimSpace(task)
	at, then := 0, false
	var before []string // what a "then" waits for
	cuts := append(pieces.FindAllStringIndex(task, maxIntents-1), []int{len(task), len(task)})
	for _, cut := range cuts {
		piece := strings.TrimSpace(task[at:cut[0]])
		if piece != "" {
			if found, all := readIntents(piece, offered); len(found) != 1 || !all {
				plan.Tasks = []part{{"task", task, "M"}}
				plan.Dependencies = []need{}
				break
			}
			id := "part-" + string(rune('a'+len(plan.Tasks)))
			if then {
				before = nil
				for _, p := range plan.Tasks {
					before = append(before, p.ID)
				}
			}
			if len(before) > 0 {
				plan.Dependencies = append(plan.Dependencies, need{id, before})
			}
			plan.Tasks = append(plan.Tasks, part{id, piece, "S"})
		}
		then = strings.Contains(strings.ToLower(task[cut[0]:cut[1]]), "then")
		at = cut[1]
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, false
	}
	return Reply{Text(string(data))}, true
}
