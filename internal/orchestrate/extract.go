package orchestrate

import (
	"encoding/json"
	"strings"
)

// maxObjects bounds how many candidates are tried in one answer.
const maxObjects = 200

// planIn finds the plan in what a model said: bare JSON, JSON in a fence, or
// JSON with prose around it. Of several objects the first valid plan counts;
// if there is none, the error is that of the one that came nearest.
func planIn(answer string) (TaskPlan, error) {
	if len(answer) > MaxPlanBytes {
		return TaskPlan{}, invalid("the answer is larger than %d MiB", MaxPlanBytes>>20)
	}
	var nearest error
	for text, tried := answer, 0; tried < maxObjects; tried++ {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			break
		}
		text = text[at:]
		var raw json.RawMessage
		dec := json.NewDecoder(strings.NewReader(text))
		if err := dec.Decode(&raw); err != nil {
			if nearest == nil && strings.Contains(text, `"tasks"`) {
				nearest = invalid("the JSON is broken: %v", err)
			}
			text = text[1:]
			continue
		}
		plan, err := ParsePlan(raw)
		if err == nil {
			return plan, nil
		}
		if nearest == nil || strings.Contains(string(raw), `"tasks"`) {
			nearest = err
		}
		text = text[dec.InputOffset():]
	}
	if nearest == nil {
		nearest = invalid("there is no JSON object in the answer")
	}
	return TaskPlan{}, nearest
}
