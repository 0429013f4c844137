package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Fleet is the state of a fleet for people.
func Fleet(s fleet.Status, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "fleet %s at %s, version %s, since %s\n\n", approval.Visible(s.Fleet), approval.Visible(strings.Join(s.URLs, ", ")), approval.Visible(cmp.Or(s.Version, "unknown")), Age(now.Sub(s.Since)))
	if len(s.Workers) == 0 {
		b.WriteString("no workers yet; let one join with the line of: copilot-bridge fleet invite\n")
	} else {
		rows := [][]string{{"WORKER", "STATE", "TASKS", "LABELS", "VERSION", "ANSWERS", "LAG"}}
		for _, w := range s.Workers {
			rows = append(rows, fleetWorker(w, now))
		}
		b.WriteString(Table(rows, 0))
	}
	if rows := fleetQueues(s.Queues); len(rows) > 1 {
		b.WriteString("\n" + Table(rows, 0))
	}
	b.WriteString(fleetCoordinators(s.Coordinators))
	b.WriteString(fleetRuns(s.Runs))
	return b.String()
}

func fleetCoordinators(members []fleet.MemberRecord) string {
	if len(members) == 0 {
		return ""
	}
	rows := [][]string{{"COORDINATOR", "NAME"}}
	for _, m := range members {
		rows = append(rows, []string{m.ID, Fit(approval.Visible(m.Name), 60)})
	}
	return "\n" + Table(rows, 0)
}

// latestRuns is how many runs are shown besides those that are going on.
const latestRuns = 10

func fleetRuns(runs []fleet.RunStatus) string {
	if len(runs) == 0 {
		return ""
	}
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b fleet.RunStatus) int { return strings.Compare(b.Run, a.Run) }) // an id begins with the time
	rows, more := [][]string{{"RUN", "STATE", "MACHINE", "TASK"}}, 0
	for _, r := range runs {
		if len(rows) <= latestRuns || r.Alive {
			rows = append(rows, FleetRun(r))
		} else {
			more++
		}
	}
	out := "\n" + Table(rows, 0)
	if more > 0 {
		out += fmt.Sprintf("and %d more: copilot-bridge orchestrate --list --fleet\n", more)
	}
	return out
}

func fleetWorker(w fleet.WorkerStatus, now time.Time) []string {
	row := []string{w.ID, "ready", "", strings.Join(w.Labels, " "), "", "", ""}
	h := w.Hello
	if h != nil {
		row[2], row[4], row[5] = fmt.Sprintf("%d of %d", len(h.Running), h.Capacity), h.Version, h.Answers
		row[3] = strings.Join(fleet.Offers(w.Labels, h.Labels), " ")
	}
	switch {
	case w.Removed:
		row[1], row[2] = "removed", ""
	case !w.Online && w.Seen.IsZero():
		row[1] = "never seen"
	case !w.Online:
		row[1], row[2] = "away for "+Age(now.Sub(w.Seen)), ""
	case w.Draining || h != nil && h.Draining:
		row[1] = "draining"
	case h != nil && h.NotReady != "":
		row[1] = "not ready: " + Fit(approval.Visible(h.NotReady), 60)
	case h != nil && len(h.Running) > 0:
		row[1] = "working"
	}
	if w.Online && w.Lag > 0 {
		row[6] = fmt.Sprintf("%.1f ms", float64(w.Lag.Microseconds())/1000)
	}
	return row
}

func fleetQueues(queues []fleet.QueueStatus) [][]string {
	rows := [][]string{{"TASKS FOR", "WAITING", "TAKEN"}}
	for _, q := range queues {
		if q.Waiting+q.Claimed > 0 {
			rows = append(rows, []string{cmp.Or(strings.Join(q.Labels, " "), "any worker"), fmt.Sprint(q.Waiting), fmt.Sprint(q.Claimed)})
		}
	}
	return rows
}

// FleetRun is a run of a fleet as a row of a table.
func FleetRun(r fleet.RunStatus) []string {
	return []string{r.Run, FleetRunState(r), r.Owner.Host, Fit(approval.Visible(text.FirstLine(r.Owner.Task, 60)), 60)}
}

// FleetRunState is how it stands with a run of a fleet, in a word.
func FleetRunState(r fleet.RunStatus) string {
	switch {
	case r.Owner.Ended:
		return "ended"
	case r.Alive:
		return "running"
	}
	return "interrupted"
}
