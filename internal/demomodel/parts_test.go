package demomodel

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestPlanned(t *testing.T) {
	for _, tt := range []struct {
		task  string
		parts []string
		needs map[string][]string
	}{
		{"create a.txt saying hi and create b.txt saying ho", []string{"create a.txt saying hi", "create b.txt saying ho"}, nil},
		{"create a.txt saying hi\ncreate b.txt saying ho, then run ls", []string{"create a.txt saying hi", "create b.txt saying ho", "run ls"},
			map[string][]string{"part-c": {"part-a", "part-b"}}},
		{"ponder and create b.txt saying ho", []string{"ponder and create b.txt saying ho"}, nil},
	} {
		reply, ok := planned(planHead + " and so on." + planStart + tt.task)
		if !ok {
			t.Errorf("%s: no plan", tt.task)
			continue
		}
		text, isText := reply[0].(textStep)
		if !isText {
			t.Fatalf("%#v", reply)
		}
		var plan struct {
			Tasks []struct {
				Description string `json:"description"`
			} `json:"tasks"`
			Dependencies []struct {
				Task      string   `json:"task"`
				DependsOn []string `json:"dependsOn"`
			} `json:"dependencies"`
		}
		whole := ""
		for _, c := range text.chunks {
			whole += c
		}
		if err := json.Unmarshal([]byte(whole), &plan); err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, p := range plan.Tasks {
			parts = append(parts, p.Description)
		}
		var needs map[string][]string
		for _, d := range plan.Dependencies {
			if needs == nil {
				needs = map[string][]string{}
			}
			needs[d.Task] = d.DependsOn
		}
		if !reflect.DeepEqual(parts, tt.parts) || !reflect.DeepEqual(needs, tt.needs) {
			t.Errorf("%s: %q %v", tt.task, parts, needs)
		}
	}
	if _, ok := planned("create a.txt"); ok {
		t.Error("a plan nobody asked for")
	}
}

func TestOwnPart(t *testing.T) {
	text := "You are doing one part.\n> create z.txt saying no\n\nYour part, x:\ncreate a.txt saying hi\n\nWhen you have finished, say so.\n"
	if got := ownPart(text); got != "create a.txt saying hi" {
		t.Errorf("%q", got)
	}
	if got := ownPart("create a.txt"); got != "create a.txt" {
		t.Errorf("%q", got)
	}
}
