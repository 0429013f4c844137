package upkeep

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// Timelines past their time are listed, and removed in the background; others
// stay.
func TestTimelinesPastTheirTime(t *testing.T) {
	t.Parallel()
	for setting, gone := range map[string][]string{"": {"weeks"}, "2": {"days", "weeks"}, "0": nil, "off": {"days", "hours", "weeks"}} {
		home := t.TempDir()
		c := &config.Config{Home: home, Sessions: config.Sessions{KeepDays: 10, Timelines: setting}}
		o := Options{Config: c, Store: sessionstore.Open(c.Path("sessions")), Records: c.Path("run"), Logger: slog.New(slog.DiscardHandler)}
		for _, dir := range []string{timeline.Dir(home), c.Path("sessions")} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for name, age := range map[string]time.Duration{"now": 0, "hours": 5 * time.Hour, "days": 5 * 24 * time.Hour, "weeks": 20 * 24 * time.Hour} {
			for _, suffix := range []string{".json", ".jsonl"} {
				file, at := filepath.Join(timeline.Dir(home), name+suffix), time.Now().Add(-age)
				if err := os.WriteFile(file, []byte(`{"id":"`+name+`"}`), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(file, at, at); err != nil {
					t.Fatal(err)
				}
			}
		}
		left, err := Leftovers(t.Context(), o, false)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, l := range left {
			if l.Kind == "timeline" {
				found++
			}
		}
		if found != len(gone) {
			t.Errorf("%q: %+v", setting, left)
		}
		(&Upkeep{opts: o}).prune(t.Context())
		kept, err := Timelines(c).List()
		if err != nil || len(kept) != 4-len(gone) || slices.ContainsFunc(kept, func(s timeline.Summary) bool { return slices.Contains(gone, s.ID) }) {
			t.Errorf("%q keeps %+v, %v", setting, kept, err)
		}
	}
}
