//go:build unix

package attempts

import (
	"os"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/guardtest"
)

// direct is a door at which the client makes the calls itself.
type direct struct {
	y *yard
	// send makes a call; false where the door has nothing like it.
	send func(t *testing.T, c call) (outcome, bool)
}

func (d *direct) do(t *testing.T, cases []guardtest.Case, _ int) (calls []call, outcomes []outcome) {
	t.Helper()
	before, err := d.y.look()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.y.filled(t, cases, d.y.Workspace) {
		o, ok := d.send(t, c)
		if !ok {
			continue
		}
		now, err := d.y.look()
		if err != nil {
			t.Fatal(err)
		}
		o.File, o.Changed, before = c.file(""), before.changes(now), now
		calls, outcomes = append(calls, c), append(outcomes, o)
	}
	return calls, outcomes
}

// answered grades an answer by its text. An error that is no denial is one of
// the door's own, such as a path that is none.
func (o *outcome) answered(failed bool, denied string) {
	o.Ran, o.Denied = !failed, failed && strings.Contains(o.Text, denied)
	o.Empty = strings.HasPrefix(o.Text, `{"hits":[]`) || strings.HasPrefix(o.Text, `{"files":[]`)
	if o.Denied {
		o.Reason = o.Text
	}
}

func directory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
