package orchestrate

import (
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Text shows a plan to a person, wave by wave.
func (p TaskPlan) Text() (string, error) {
	g, err := newGraph(p)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	wave := 0
	for _, i := range g.inWaves() {
		if g.wave[i] != wave {
			wave = g.wave[i]
			fmt.Fprintf(&b, "Wave %d\n", wave)
		}
		t := p.Tasks[i]
		fmt.Fprintf(&b, "  %s  %s  %s", t.EstimatedComplexity, t.ID, text.FirstLine(t.Description, 100))
		if len(g.needs[i]) > 0 {
			fmt.Fprintf(&b, "  (after %s)", strings.Join(g.names(g.needs[i]), ", "))
		}
		b.WriteByte('\n')
	}
	path, _ := g.criticalPath(func(i int) int64 { return p.Tasks[i].EstimatedComplexity.weight() })
	fmt.Fprintf(&b, "Longest path: %s\n", strings.Join(g.names(path), " → "))
	return b.String(), nil
}

func (g *graph) names(tasks []int) []string {
	out := make([]string, len(tasks))
	for k, i := range tasks {
		out[k] = g.plan.Tasks[i].ID
	}
	return out
}

// mermaidText are the characters that would end a label or begin markup.
var mermaidText = strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "#", "#35;", "`", "#96;", "\\", "#92;")

// Mermaid draws a plan as a flow chart in Mermaid's language.
func (p TaskPlan) Mermaid() (string, error) {
	g, err := newGraph(p)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i, t := range p.Tasks {
		fmt.Fprintf(&b, "  t%d[\"%s (%s)<br/>%s\"]\n", i, mermaidText.Replace(t.ID), t.EstimatedComplexity, mermaidText.Replace(text.FirstLine(t.Description, 60)))
	}
	for i := range p.Tasks {
		for _, j := range g.needs[i] {
			fmt.Fprintf(&b, "  t%d --> t%d\n", j, i)
		}
	}
	return b.String(), nil
}

// Waves are the ids of the tasks, wave by wave: those of a wave depend on
// nothing in it or after it.
func (p TaskPlan) Waves() ([][]string, error) {
	g, err := newGraph(p)
	if err != nil {
		return nil, err
	}
	out := make([][]string, g.waves)
	for _, i := range g.inWaves() {
		out[g.wave[i]-1] = append(out[g.wave[i]-1], p.Tasks[i].ID)
	}
	return out, nil
}
