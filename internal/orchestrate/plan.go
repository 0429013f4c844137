package orchestrate

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Bounds of a plan. They keep a hostile or broken one from costing anything.
const (
	MaxPlanBytes   = 16 << 20
	maxTasks       = 10_000
	maxID          = 64
	maxDescription = 64 << 10
)

// Complexity is how much work a task is expected to be.
type Complexity string

// The complexities. They count as 1, 3 and 9 when paths are compared.
const (
	Small  Complexity = "S"
	Medium Complexity = "M"
	Large  Complexity = "L"
)

func (c Complexity) weight() int64 {
	switch c {
	case Small:
		return 1
	case Large:
		return 9
	case Medium:
	}
	return 3
}

// SubTask is one part of a plan.
type SubTask struct {
	ID                  string     `json:"id"`
	Description         string     `json:"description"`
	EstimatedComplexity Complexity `json:"estimatedComplexity"`
}

// TaskPlan lists tasks and their dependencies.
type TaskPlan struct {
	Tasks []SubTask `json:"tasks"`
	// Dependencies lists, by id, what a task builds on.
	Dependencies map[string][]string `json:"dependencies"`
}

// Single is the plan that does everything in one part.
func Single(task string) TaskPlan {
	return TaskPlan{Tasks: []SubTask{{ID: "task", Description: task, EstimatedComplexity: Medium}}, Dependencies: map[string][]string{}}
}

// maxTitle bounds the first part of a title; lists show 60 characters in all.
const maxTitle = 44

// title names a plan by its first part.
func (p TaskPlan) title() string {
	if len(p.Tasks) == 0 {
		return ""
	}
	title := text.FirstLine(p.Tasks[0].Description, maxTitle)
	if more := len(p.Tasks) - 1; more > 0 {
		title += fmt.Sprintf(" (and %d more)", more)
	}
	return title
}

// planJSON also takes the forms that models prefer: dependencies as a list of
// pairs, which strict schemas can describe, or beside each task.
type planJSON struct {
	Tasks []struct {
		ID          string   `json:"id"`
		Description string   `json:"description"`
		Complexity  string   `json:"estimatedComplexity"`
		DependsOn   []string `json:"dependsOn"`
	} `json:"tasks"`
	Dependencies json.RawMessage `json:"dependencies"`
}

// ParsePlan reads a plan and checks it. Unknown members are ignored. The
// error names the mistake exactly, so that a person or a model can correct it.
func ParsePlan(data []byte) (TaskPlan, error) {
	if len(data) > MaxPlanBytes {
		return TaskPlan{}, invalid("the plan is larger than %d MiB", MaxPlanBytes>>20)
	}
	var in planJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return TaskPlan{}, invalid("the plan is not the JSON that was asked for: %v", err)
	}
	plan := TaskPlan{Tasks: make([]SubTask, 0, len(in.Tasks)), Dependencies: make(map[string][]string, len(in.Tasks))}
	for _, t := range in.Tasks {
		c := Complexity(strings.ToUpper(strings.TrimSpace(t.Complexity)))
		if c == "" {
			c = Medium
		}
		plan.Tasks = append(plan.Tasks, SubTask{ID: strings.TrimSpace(t.ID), Description: strings.TrimSpace(t.Description), EstimatedComplexity: c})
		plan.depend(t.ID, t.DependsOn)
	}
	if err := plan.readDependencies(in.Dependencies); err != nil {
		return TaskPlan{}, err
	}
	if err := plan.Validate(); err != nil {
		return TaskPlan{}, err
	}
	return plan, nil
}

func (p *TaskPlan) readDependencies(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] == '{' {
		byTask := make(map[string][]string, len(p.Tasks))
		if err := json.Unmarshal(raw, &byTask); err != nil {
			return invalid(`"dependencies" must map the id of a task to a list of ids: %v`, err)
		}
		for id, on := range byTask {
			p.depend(id, on)
		}
		return nil
	}
	var pairs []struct {
		Task      string   `json:"task"`
		DependsOn []string `json:"dependsOn"`
	}
	if err := json.Unmarshal(raw, &pairs); err != nil {
		return invalid(`"dependencies" must map the id of a task to a list of ids: %v`, err)
	}
	for _, d := range pairs {
		p.depend(d.Task, d.DependsOn)
	}
	return nil
}

func (p *TaskPlan) depend(id string, on []string) {
	id = strings.TrimSpace(id)
	if p.Dependencies[id] == nil && len(on) > 0 {
		p.Dependencies[id] = make([]string, 0, len(on))
	}
	for _, d := range on {
		p.Dependencies[id] = append(p.Dependencies[id], strings.TrimSpace(d))
	}
}

// Validate checks that the plan can be carried out: tasks with distinct ids
// and descriptions, dependencies that exist, and no cycle.
func (p TaskPlan) Validate() error {
	_, err := newGraph(p)
	return err
}

func (t SubTask) check() error {
	switch {
	case t.ID == "":
		return invalid("a task has no id")
	case len(t.ID) > maxID:
		return invalid("the id %q… is longer than %d bytes", t.ID[:20], maxID)
	case !utf8.ValidString(t.ID) || strings.ContainsFunc(t.ID, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return invalid("the id %q holds a space or a control character", t.ID)
	case t.Description == "":
		return invalid("task %q has no description", t.ID)
	case len(t.Description) > maxDescription:
		return invalid("the description of task %q is longer than %d KiB", t.ID, maxDescription>>10)
	case t.EstimatedComplexity != Small && t.EstimatedComplexity != Medium && t.EstimatedComplexity != Large:
		return invalid("estimatedComplexity of task %q is %q; it must be S, M or L", t.ID, t.EstimatedComplexity)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
