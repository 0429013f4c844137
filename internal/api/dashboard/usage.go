package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

// Usage is the answer of GET /usage.
type Usage struct {
	Since   time.Time             `json:"since"`
	Step    string                `json:"step"` // of the buckets: hour or day, in UTC
	Buckets []UsageRow            `json:"buckets"`
	Totals  UsageRow              `json:"totals"`
	RowsBy  map[string][]UsageRow `json:"rows_by"` // model, door and session; what has used most first
}

// UsageRow is what was used in one hour or day, with one model, over one API or in
// one session; what is empty is not told apart.
type UsageRow struct {
	At           *time.Time `json:"at,omitempty"`
	Model        string     `json:"model,omitempty"`
	Door         string     `json:"door,omitempty"`
	Session      string     `json:"session,omitempty"`
	Turns        int        `json:"turns"`
	Requests     int        `json:"requests"`
	InputTokens  int64      `json:"input_tokens"`
	OutputTokens int64      `json:"output_tokens"`
	Cost         float64    `json:"cost"`
	Premium      float64    `json:"premium_requests"`
	Credits      float64    `json:"ai_credits"`
	// FirstWordMs is how long the first word took on average; nil where it is not known.
	FirstWordMs *int64 `json:"first_word_ms,omitempty"`
}

const (
	hourly      = 48 * time.Hour       // of which there are buckets by the hour
	maxSince    = 400 * 24 * time.Hour // as long as figures are kept
	maxSessions = 50                   // that are told apart
)

// usage is GET /usage?since=7d.
func (a *API) usage(_ http.ResponseWriter, r *http.Request) (any, error) {
	ago, err := parseAgo(cmp.Or(r.URL.Query().Get("since"), "7d"))
	if err != nil {
		return nil, err
	}
	since := time.Now().UTC().Add(-ago)
	records, err := a.opts.Records.Usage(since)
	if err != nil {
		return nil, err
	}
	return usageOf(records, since, ago <= hourly), nil
}

// parseAgo reads an age such as 24h or 30d.
func parseAgo(text string) (time.Duration, error) {
	ago, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, dayErr := strconv.Atoi(days)
		ago, err = time.Duration(min(max(n, 0), 400))*24*time.Hour, dayErr
	}
	if err != nil || ago <= 0 {
		return 0, invalid("since is no age", "Write it as since=24h or since=30d.")
	}
	return min(ago, maxSince), nil
}

// usageOf adds up records.
func usageOf(records []usagelog.Record, since time.Time, byHour bool) Usage {
	u := Usage{Since: since, Step: "day", Buckets: []UsageRow{}, RowsBy: map[string][]UsageRow{}}
	if byHour {
		u.Step = "hour"
		first := since.Truncate(time.Hour).Format("2006-01-02 15")
		records = slices.DeleteFunc(records, func(r usagelog.Record) bool { return r.Hour != "" && r.Day+" "+r.Hour < first })
	}
	group := func(key func(usagelog.Record) usagelog.Record) []usagelog.Record {
		out := make([]usagelog.Record, 0, len(records))
		for _, r := range records {
			k := key(r)
			out = append(out, k.Add(r))
		}
		return usagelog.Sum(out)
	}
	for _, r := range group(func(r usagelog.Record) usagelog.Record {
		k := usagelog.Record{Day: r.Day, Model: r.Model, Door: r.Door}
		if byHour {
			k.Hour = r.Hour
		}
		return k
	}) {
		row := usageRow(r)
		if at, err := time.Parse("2006-01-02 15", r.Day+" "+cmp.Or(r.Hour, "00")); err == nil {
			row.At = &at
		}
		u.Buckets = append(u.Buckets, row)
	}
	for name, key := range map[string]func(usagelog.Record) usagelog.Record{
		"model":   func(r usagelog.Record) usagelog.Record { return usagelog.Record{Model: r.Model} },
		"door":    func(r usagelog.Record) usagelog.Record { return usagelog.Record{Door: r.Door} },
		"session": func(r usagelog.Record) usagelog.Record { return usagelog.Record{Session: r.Session} },
	} {
		rows := []UsageRow{}
		for _, r := range group(key) {
			rows = append(rows, usageRow(r))
		}
		slices.SortStableFunc(rows, func(a, b UsageRow) int {
			return cmp.Or(cmp.Compare(b.Premium, a.Premium), cmp.Compare(b.Credits, a.Credits), cmp.Compare(b.InputTokens+b.OutputTokens, a.InputTokens+a.OutputTokens))
		})
		u.RowsBy[name] = rows
	}
	if s := u.RowsBy["session"]; len(s) > maxSessions {
		u.RowsBy["session"] = s[:maxSessions]
	}
	var total usagelog.Record
	for _, r := range records {
		total = total.Add(r)
	}
	u.Totals = usageRow(total)
	return u
}

func usageRow(r usagelog.Record) UsageRow {
	row := UsageRow{Model: r.Model, Door: r.Door, Session: r.Session, Turns: r.Turns, Requests: r.Requests, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
		Cost: r.Cost, Premium: r.Premium, Credits: r.Credits}
	if r.FirstWords > 0 {
		row.FirstWordMs = new(r.FirstWordMs / int64(r.FirstWords))
	}
	return row
}
