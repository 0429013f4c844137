//go:build unix

package attempts

import (
	"os"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// direct is a door where the test makes the tool calls itself.
type direct struct {
	y *testEnv
	// send makes a call. It returns false if the door has no such call.
	send func(t *testing.T, c call) (outcome, bool)
}

func (d *direct) do(t *testing.T, cases []guardtest.Case, _ int) (calls []call, outcomes []outcome) {
	t.Helper()
	before, err := d.y.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.y.fillCases(t, cases, d.y.Workspace) {
		o, ok := d.send(t, c)
		if !ok {
			continue
		}
		now, err := d.y.snapshot()
		if err != nil {
			t.Fatal(err)
		}
		o.File, o.Changed, before = c.file(""), before.changes(now), now
		calls, outcomes = append(calls, c), append(outcomes, o)
	}
	return calls, outcomes
}

// setFromText sets the outcome by the text of an answer. An error that is no
// denial comes from the door itself, for example for an invalid path.
func (o *outcome) setFromText(failed bool, denied string) {
	o.Ran, o.Denied = !failed, failed && strings.Contains(o.Text, denied)
	o.Empty = strings.HasPrefix(o.Text, `{"hits":[]`) || strings.HasPrefix(o.Text, `{"files":[]`)
	if o.Denied {
		o.Reason = o.Text
	}
}

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
