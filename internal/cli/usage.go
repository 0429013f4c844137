package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

// usageOptions are the flags of usage.
type usageOptions struct{ since, by string }

func (p *program) usageCommand() *cobra.Command {
	o := &usageOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "usage",
		Short: "Show what was used: premium requests, AI credits, tokens",
		Long: `Show the premium requests, AI credits and tokens that this machine's turns have used.
Days are those of UTC, as GitHub counts them. What other programs use is not counted here,
nor what the demo model answers.`,
		Example: `  copilot-bridge usage
  copilot-bridge usage --since 7d --by model
  copilot-bridge usage --since 2026-01-01 --json | jq .total.premium_requests`,
	}, func(ctx context.Context, c call) error { return p.showUsage(ctx, c, o) })
	f := flagsOf(cmd)
	f.text(&o.since, "since", "since this `TIME` ago, such as 7d, or since a date (default: 30d)")
	f.choice(&o.by, "by", "day", "what to add up", "day", "model", "session", "door")
	f.json("write JSON")
	return cmd
}

// usedRow is a row of usage.
type usedRow struct {
	usagelog.Record
	Title string `json:"title,omitempty"` // of the session
}

// usedReport is what usage writes as JSON.
type usedReport struct {
	Since string          `json:"since"`
	By    string          `json:"by"`
	Rows  []usedRow       `json:"rows"`
	Total usagelog.Record `json:"total"`
}

func (p *program) showUsage(ctx context.Context, c call, o *usageOptions) error {
	since, err := parseSince(c, cmp.Or(o.since, "30d"), time.UTC)
	if err != nil {
		return err
	}
	records, err := app.Usage(c.cfg).Read(since)
	if err != nil {
		return err
	}
	r := usedReport{Since: since.UTC().Format(time.DateOnly), By: o.by, Rows: usedRows(records, o.by)}
	for i := range r.Rows {
		r.Total = r.Total.Add(r.Rows[i].Record)
	}
	if o.by == "session" {
		if err := addTitles(ctx, c.cfg, r.Rows); err != nil {
			return err
		}
	}
	if p.json {
		return p.printJSON(r)
	}
	if len(records) == 0 {
		return p.print("nothing was used since " + r.Since + "\n")
	}
	width := 0 // no limit in a pipe
	if p.console.OutTTY {
		width = p.env.Width(p.env.Stdout)
	}
	return p.print(view.Table(r.table(), width))
}

// usedRows adds up records by one of their fields. Days come in their order,
// other rows by what they cost.
func usedRows(records []usagelog.Record, by string) []usedRow {
	sums := map[usagelog.Record]usagelog.Record{}
	for _, r := range records {
		key := usagelog.Record{}
		switch by {
		case "model":
			key.Model = r.Model
		case "session":
			key.Session = r.Session
		case "door":
			key.Door = r.Door
		default:
			key.Day = r.Day
		}
		sum, known := sums[key]
		if !known {
			sum = key
		}
		sums[key] = sum.Add(r)
	}
	rows := []usedRow{}
	for _, r := range sums {
		rows = append(rows, usedRow{Record: r})
	}
	slices.SortStableFunc(rows, func(a, b usedRow) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(b.Premium, a.Premium), cmp.Compare(b.Credits, a.Credits), cmp.Compare(b.InputTokens, a.InputTokens),
			cmp.Compare(a.Model+a.Session+a.Door, b.Model+b.Session+b.Door))
	})
	return rows
}

// addTitles names the sessions that are still on the list.
func addTitles(ctx context.Context, cfg *config.Config, rows []usedRow) error {
	entries, err := app.Store(cfg).List(ctx)
	titles := map[string]string{"": "chats, which have no session"}
	for _, e := range entries {
		titles[e.ID] = e.Title
	}
	for i := range rows {
		rows[i].Title = titles[rows[i].Session]
	}
	return err
}

func (r usedReport) table() [][]string {
	heads := map[string]string{"day": "DAY", "model": "MODEL", "session": "SESSION", "door": "DOOR"}
	rows := [][]string{{heads[r.By], "TURNS", "PREMIUM", "CREDITS", "TOKENS IN", "OUT"}}
	add := func(name string, u usagelog.Record) []string {
		return []string{name, view.Count(int64(u.Turns)), view.Amount(u.Premium), view.Amount(u.Credits), view.Count(u.InputTokens), view.Count(u.OutputTokens)}
	}
	if r.By == "session" {
		rows[0] = append(rows[0], "TITLE")
	}
	for _, u := range r.Rows {
		row := add(u.Day+u.Model+u.Door+fmt.Sprintf("%.8s", u.Session), u.Record)
		if r.By == "session" {
			row = append(row, u.Title)
		}
		rows = append(rows, row)
	}
	total := add("total", r.Total)
	if r.By == "session" {
		total = append(total, " ")
	}
	return append(rows, total)
}
