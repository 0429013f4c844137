package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

// A turn is recorded with the time to the first word of its answer, which a tool
// call is not, and one that says nothing is recorded without.
func TestFirstWordIsRecorded(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := usagelog.Open(dir)
		_, s := open(t, engine.Options{Ledger: log}, engine.Request{Door: "cli"})
		began := time.Now()
		for _, p := range [][]string{{`tool sleep {"for":"5s"}`, "next", "delay 2s", "text one", "delay 9s", "text two", "usage 10 2"}, {"usage 3 1"}} {
			if o := turn(t.Context(), s, script(p...)); o.err != nil {
				t.Fatal(o.err)
			}
		}
		records, err := log.Read(began)
		if err != nil || len(records) != 2 {
			t.Fatal(records, err)
		}
		if r := records[0]; r.Turns != 1 || r.FirstWords != 1 || r.FirstWordMs != 7000 || r.Door != "cli" || r.Hour != began.UTC().Format("15") {
			t.Errorf("%+v", r)
		}
		if r := records[1]; r.Turns != 1 || r.FirstWords != 0 || r.FirstWordMs != 0 {
			t.Errorf("%+v", r)
		}
	})
}
