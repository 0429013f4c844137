package mcp

import (
	"fmt"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// taskText is the report of a task: first its answer, then its tool calls, then
// its figures.
func taskText(r TaskResult) string {
	var b strings.Builder
	b.WriteString(answer(r) + "\n\n---\n")
	if len(r.ToolCalls) > 0 {
		b.WriteString("Tool calls:\n")
		for i, t := range r.ToolCalls {
			fmt.Fprintf(&b, "%d. %s\n", i+1, toolText(t.Name, about(t.Arguments), t.OK, t.Error, time.Duration(t.DurationMs)*time.Millisecond))
		}
	}
	b.WriteString(taskFigures(r))
	return b.String()
}

func answer(r TaskResult) string {
	text := strings.TrimSpace(r.Text)
	if text == "" {
		text = "Copilot said nothing."
	}
	return notice(r.Notice) + text
}

func notice(text string) string {
	if text == "" {
		return ""
	}
	return "> " + text + "\n\n"
}

// toolText is one tool call in a line.
func toolText(name, about string, ok bool, fault string, took time.Duration) string {
	line := fmt.Sprintf("`%s`%s (%s)", approval.Visible(name), about, seconds(took))
	if !ok {
		line += ", failed: " + clip(approval.Visible(fault), 200)
	}
	return line
}

func taskFigures(r TaskResult) string {
	text := ""
	if len(r.Files) > 0 {
		text = filesText(r.Files)
	}
	return text + fmt.Sprintf("%s, %s, session `%s`\n", seconds(time.Duration(r.DurationMs)*time.Millisecond), tokens(r.Usage), r.Session)
}

// maxNamed is how many files a text names; the structured result has them all.
const maxNamed = 50

func filesText(files []string) string {
	var names []string
	for i, f := range files {
		if i == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(files)-maxNamed))
			break
		}
		names = append(names, "`"+approval.Visible(f)+"`")
	}
	return "Files changed: " + strings.Join(names, ", ") + "\n"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func tokens(u Usage) string {
	text := fmt.Sprintf("%d tokens in, %d out", u.InputTokens, u.OutputTokens)
	if u.Model != "" {
		text += " (" + approval.Visible(u.Model) + ")"
	}
	return text
}

// largeText is the report of a task in parts.
func largeText(r LargeResult) string {
	var b strings.Builder
	b.WriteString(notice(r.Notice) + approval.Visible(r.Summary) + "\n")
	needs := map[string][]string{}
	for _, p := range r.Plan {
		needs[p.ID] = p.DependsOn
	}
	for i, t := range r.Tasks {
		fmt.Fprintf(&b, "\n%d. **%s**: %s", i+1, t.ID, t.State)
		if after := needs[t.ID]; len(after) > 0 {
			b.WriteString(", after " + strings.Join(after, ", "))
		}
		fmt.Fprintf(&b, " (%s, %d tool calls)", seconds(time.Duration(t.DurationMs)*time.Millisecond), t.ToolCalls)
		if t.Denied > 0 {
			fmt.Fprintf(&b, ", %d refused by the policy", t.Denied)
		}
		if t.HeldBack {
			b.WriteString(", held back on the branch `" + t.Branch + "`")
		}
		for _, text := range []string{t.Error, t.Summary} {
			if text = strings.TrimSpace(text); text != "" {
				b.WriteString("\n   " + strings.ReplaceAll(approval.Lines(clip(text, 1000)), "\n", "\n   "))
			}
		}
	}
	b.WriteString("\n\n---\n")
	for _, c := range r.Conflicts {
		state := "not resolved"
		if c.Resolved {
			state = "resolved"
		}
		fmt.Fprintf(&b, "Conflict (%s) in %s\n", state, approval.Visible(strings.Join(c.Paths, ", ")))
	}
	if len(r.Files) > 0 {
		b.WriteString(filesText(r.Files))
	}
	if r.Branch != "" {
		b.WriteString("The result is on the branch `" + r.Branch + "`\n")
	}
	if len(r.KeptBranches) > 0 {
		b.WriteString("Work that is not in it is kept on `" + strings.Join(r.KeptBranches, "`, `") + "`\n")
	}
	fmt.Fprintf(&b, "%s, %.1f times as fast as one after another, longest path %s; %s, run `%s`\n",
		seconds(time.Duration(r.DurationMs)*time.Millisecond), r.Speedup, strings.Join(r.CriticalPath, " → "), tokens(r.Usage), r.Run)
	return b.String()
}
