package orchestrate

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What a task is told of others is cut to these sizes.
const (
	maxGoal    = 4 << 10
	maxSummary = 4 << 10
	maxContext = 32 << 10 // of all summaries together
)

// prompt is what a task is told: the whole for orientation, what was done
// before, and its own part.
func prompt(goal string, a Assignment) string {
	var b strings.Builder
	b.WriteString("You are doing one part of a larger task. Others do the other parts, some of them at the same time in working directories of their own. " +
		"Do this part only, and do it completely.\n")
	if goal != "" && goal != a.Task.Description {
		b.WriteString("\nThe larger task, for orientation:\n" + quote(clip(goal, maxGoal)))
	}
	if len(a.Needs) > 0 {
		b.WriteString("\nWhat your part builds on is done, and its changes are in your working directory. What was said about it:\n")
		share := min(maxSummary, maxContext/len(a.Needs))
		for _, n := range a.Needs {
			fmt.Fprintf(&b, "- %s:\n%s", n.ID, quote(clip(n.Summary, share)))
		}
	}
	fmt.Fprintf(&b, "\nYour part, %s:\n%s\n", a.Task.ID, a.Task.Description)
	b.WriteString("\nWhen you have finished, say in a few sentences what you did and what those who build on it need to know. Do not commit.\n")
	return b.String()
}

// quote marks every line as somebody else's words.
func quote(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return "> (nothing)\n"
	}
	return "> " + strings.ReplaceAll(text, "\n", "\n> ") + "\n"
}

// clip shortens a text at a character's border.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// resolvePrompt asks for a conflict to be resolved.
func resolvePrompt(goal string, m merged, ours, theirs string) string {
	var b strings.Builder
	b.WriteString("Two parts of a larger task were done at the same time and changed the same places. Put them together so that both do what they were meant to.\n")
	if goal != "" {
		b.WriteString("\nThe larger task, for orientation:\n" + quote(clip(goal, maxGoal)))
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
