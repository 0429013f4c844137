package demomodel

import (
	"encoding/json"
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
// the part, not the text around it.
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

// planned divides a task into its simple requests, or leaves it whole if one
// of them cannot be understood by itself.
func planned(text string) (Reply, bool) {
	if !strings.HasPrefix(text, planHead) {
		return nil, false
	}
	_, whole, ok := strings.Cut(text, planStart)
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
	whole = strings.TrimSpace(whole)
	var before, all []string // what a "then" waits for, and what there is
	for i, p := range pieces(whole) {
		if _, ok := readTask(p.text); !ok || i == maxTasks {
			plan.Tasks, plan.Dependencies = []part{{"task", whole, "M"}}, []need{}
			break
		}
		if p.then {
			before = all
		}
		id := "part-" + string(rune('a'+i))
		if all = append(all[:len(all):len(all)], id); len(before) > 0 {
			plan.Dependencies = append(plan.Dependencies, need{id, before})
		}
		plan.Tasks = append(plan.Tasks, part{id, p.text, "S"})
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, false
	}
	return Reply{Text(string(data))}, true
}
