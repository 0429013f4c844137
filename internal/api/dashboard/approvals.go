package dashboard

import (
	"errors"
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

// approvals is GET /approvals.
func (a *API) approvals(http.ResponseWriter, *http.Request) (any, error) {
	list, err := live.Questions(a.opts.Home)
	return map[string]any{"approvals": orEmpty(list)}, err
}

// approve is POST /approvals/{id}.
func (a *API) approve(w http.ResponseWriter, r *http.Request) (any, error) {
	given, err := decode[struct {
		Answer string            `json:"answer"`
		Reason string            `json:"reason"`
		Text   string            `json:"text"`
		Fields map[string]string `json:"fields"`
	}](w, r)
	if err != nil {
		return nil, err
	}
	reply := live.Reply{Answer: given.Answer, Reason: given.Reason, Text: given.Text, Fields: given.Fields, By: byDashboard}
	return none{}, tooLate(live.Answer(a.opts.Home, r.PathValue("id"), reply))
}

// tooLate gives the errors of an answer that comes too late a status of their own.
func tooLate(err error) error {
	var first *live.AnsweredError
	switch {
	case errors.As(err, &first):
		where := first.By
		if where == "" {
			where = "another place"
		}
		return refuse(http.StatusConflict, "answered", "This question was answered ("+first.Said()+") at: "+where+".", "")
	case errors.Is(err, live.ErrGone):
		return refuse(http.StatusGone, "gone", "This question needs no answer any more: it was taken back, or its time is over.", "")
	}
	return err
}
