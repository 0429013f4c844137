package orchestrate

import (
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// What a task is told of others is cut to these sizes.
const (
	maxGoal    = 4 << 10
	maxSummary = 4 << 10
	maxContext = 32 << 10 // of all summaries together
	// maxAnswer bounds the answer to a task that is all there is to do.
	maxAnswer = 60 << 10
)

// isAll says that a task is all there is to do: others need to know nothing of it,
// and its answer is for whoever gave it.
func isAll(goal string, a Assignment) bool { return goal == a.Task.Description && len(a.Needs) == 0 }

// prompt is the text that a task gets: the whole for orientation, the results
// before it, and its own part.
func prompt(goal string, a Assignment) string {
	if isAll(goal, a) {
		return goal
	}
	var b strings.Builder
	b.WriteString("You are doing one part of a larger task. Others do the other parts, some of them at the same time in working directories of their own. " +
		"Do this part only, and do it completely.\n")
	if goal != "" {
		b.WriteString("\nThe larger task, for orientation:\n" + quote(text.Clip(goal, maxGoal)))
	}
	if len(a.Needs) > 0 {
		b.WriteString("\nWhat your part builds on is done, and its changes are in your working directory. What was said about it:\n")
		share := min(maxSummary, maxContext/len(a.Needs))
		for _, n := range a.Needs {
			fmt.Fprintf(&b, "- %s:\n%s", n.ID, quote(text.Clip(n.Summary, share)))
		}
	}
	fmt.Fprintf(&b, "\nYour part, %s:\n%s\n", a.Task.ID, a.Task.Description)
	b.WriteString("\nWhen you have finished, say in a few sentences what you did and what those who build on it need to know. Do not commit.\n")
	return b.String()
}

// quote marks every line as the words of another.
func quote(words string) string {
	if words = strings.TrimSpace(words); words == "" {
		return "> (nothing)\n"
	}
	return "> " + strings.ReplaceAll(words, "\n", "\n> ") + "\n"
}

// resolvePrompt asks for a conflict to be resolved.
func resolvePrompt(goal string, m merged, ours, theirs string) string {
	var b strings.Builder
	b.WriteString("Two parts of a larger task were done at the same time and changed the same places. Put them together so that both do what they were meant to.\n")
	if goal != "" {
		b.WriteString("\nThe larger task, for orientation:\n" + quote(text.Clip(goal, maxGoal)))
	}
	fmt.Fprintf(&b, "\nThe first side (before =======) is the work of: %s\nThe second side (after =======) is the work of: %s\n", ours, theirs)
	b.WriteString("\nFiles with a conflict:\n")
	for _, c := range m.conflicts {
		switch {
		case c.ours == "" || c.theirs == "":
			fmt.Fprintf(&b, "- %s: one side deleted it and the other changed it; keep or delete it\n", c.path)
		default:
			fmt.Fprintf(&b, "- %s: between conflict markers or, if %s exists, with the second side there\n", c.path, sideFile(c.path))
		}
	}
	b.WriteString("\nEdit these files so that no conflict marker is left, and remove every file whose name ends in .OTHER-SIDE once its contents are taken care of. Change nothing else. Do not commit.\n")
	return b.String()
}
