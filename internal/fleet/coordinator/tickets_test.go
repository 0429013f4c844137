package coordinator

import "testing"

func TestTicketOf(t *testing.T) {
	for ack, want := range map[string]uint64{
		"$JS.ACK.TASKS.any.1.42.7.1700000000000000000.0":           42,
		"$JS.ACK._.ACCHASH.TASKS.any.1.42.7.1700000000000000000.0": 42,
		"$JS.ACK.hub.ACCHASH.TASKS.any.1.43.7.1.0.x9":              43,
		"$JS.ACK.TASKS.q-x.1.42.7.1.0":                             0,
		"$JS.ACK.JOURNAL.any.1.42.7.1.0":                           0,
		"$JS.ACK.TASKS.any.1.42.7.1":                               0,
		"$JS.ACK.TASKS.any.1.*.7.1.0":                              0,
		"$JS.ACK.TASKS.any.1.-1.7.1.0":                             0,
		"$JS.API.TASKS.any.1.42.7.1.0":                             0,
		"$JS.ACK.TASKS.any.1.42.7.1.0 x":                           0,
		"fleet.journal.r":                                          0,
		"":                                                         0,
	} {
		if got, ok := ticketOf(ack, "any"); got != want || ok != (want != 0) {
			t.Errorf("%q: %d %v, want %d", ack, got, ok, want)
		}
	}
}
