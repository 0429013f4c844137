package orchestrate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Planned is a plan and how it came about.
type Planned struct {
	Plan  TaskPlan
	Usage bridge.Usage
	// Problem says why the plan is a single task although a plan was asked
	// for, or is empty.
	Problem string
}

// planSchema is what a provider that can is bound to. Strict schemas know no
// maps, so dependencies are a list here.
const planSchema = `{"type":"object","additionalProperties":false,"required":["tasks","dependencies"],"properties":{
"tasks":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["id","description","estimatedComplexity"],"properties":{
"id":{"type":"string"},"description":{"type":"string"},"estimatedComplexity":{"type":"string","enum":["S","M","L"]}}}},
"dependencies":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["task","dependsOn"],"properties":{
"task":{"type":"string"},"dependsOn":{"type":"array","items":{"type":"string"}}}}}}}`

const planRequest = `Divide the task below into parts that can be done by different people, as far as possible at the same time. Look at the working directory first if that helps; change nothing.

Each part is done in a working directory of its own, by somebody who sees the description of the part and short reports on the parts that it depends on, and nothing else: a description must say exactly what to do and where. Parts that change the same lines must depend on each other. Use as few parts as make sense; a small task is one part.

Answer with one JSON object and nothing else:
{"tasks": [{"id": "short-name", "description": "…", "estimatedComplexity": "S" | "M" | "L"}],
 "dependencies": [{"task": "short-name", "dependsOn": ["other-name"]}]}
Leave tasks without dependencies out of "dependencies".

The task:
`

// MakePlan asks the model for a plan. If the answer is no valid plan the model
// is told exactly why, once; if that does not help either, the plan is the
// task as a single part. The error is not nil only if there was no answer.
func MakePlan(ctx context.Context, open Opener, dir, task string, report func(Progress)) (p Planned, err error) {
	format := &bridge.ResponseFormat{Name: "task_plan", Description: "The parts of the task and what depends on what", Schema: json.RawMessage(planSchema), Strict: true}
	p, err = ask(ctx, open, dir, task, format, report)
	if refusesFormat(err) {
		p, err = ask(ctx, open, dir, task, nil, report)
	}
	return p, err
}

// refusesFormat says whether the agent cannot be bound to a response format, as
// over ACP, or a provider may have refused the request because of it.
func refusesFormat(err error) bool {
	var e *bridge.Error
	return errors.As(err, &e) && (e.Code == bridge.CodeUnsupported || e.Code == bridge.CodeProvider &&
		(e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity || e.Status == http.StatusNotImplemented))
}

func ask(ctx context.Context, open Opener, dir, task string, format *bridge.ResponseFormat, report func(Progress)) (p Planned, err error) {
	s, err := open(ctx, Opening{Dir: dir, Title: "plan: " + text.FirstLine(task, 50), Task: "the plan", Planning: true})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	request := planRequest + task
	for range 2 {
		out, said, err := turn(ctx, s, dir, bridge.Prompt{Text: request, ResponseFormat: format}, report)
		p.Usage = p.Usage.Add(out.Usage)
		if bridge.CodeOf(err) == bridge.CodeDenied {
			err = nil // it looked where it may not, and may have answered all the same
		}
		if err != nil {
			return p, err
		}
		plan, problem := planIn(said)
		if problem == nil {
			p.Plan, p.Problem = plan, ""
			return p, nil
		}
		p.Problem = problem.Error()
		request = "This is not a plan that can be carried out: " + p.Problem + "\nAnswer again with the whole JSON object, corrected, and nothing else.\n"
	}
	p.Plan = Single(task)
	return p, nil
}
