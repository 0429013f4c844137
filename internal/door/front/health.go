package front

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// The states of Copilot in Health.
const (
	CopilotOK          = "ok"
	CopilotUnavailable = "unavailable"
	// With an editor's models nobody knows before one was asked.
	CopilotConsent = "consent_required"
	CopilotUnknown = "unknown"
)

// Health is what /healthz and /readyz say.
type Health struct {
	OK    bool // the process itself is well
	Ready bool // requests would be answered now
	// The rest is only for those who may use the doors.
	Copilot string // one of the states above
	// Reason says why Copilot is unavailable or the bridge not ready, and
	// Details say more.
	Reason  string
	Details map[string]any
}

// freshness is how long an answer about health is good for, and the bound on
// finding one.
const freshness = 2 * time.Second

// prober asks for the health at most once in a while, whoever wants to know.
type prober struct {
	check func(context.Context) Health

	mu   sync.Mutex
	last Health
	at   time.Time
}

func (p *prober) health(ctx context.Context) Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && time.Since(p.at) < freshness {
		return p.last
	}
	// Others wait for the answer too, so it must not end with this request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freshness)
	defer cancel()
	p.last = p.check(ctx)
	p.at = time.Now()
	return p.last
}

// healthz answers 200 as long as the process is well: whoever restarts it for
// its health must not do so because Copilot is away.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	h := s.health.health(r.Context())
	body := map[string]any{}
	if admitted(r.Context()) {
		maps.Copy(body, h.Details)
		if h.Reason != "" {
			body["reason"] = h.Reason
		}
		body["copilot"] = h.Copilot
	}
	body["ok"] = h.OK
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	answerNow(w, status, body)
}

// readyz answers 200 when requests would be answered.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	h := s.health.health(r.Context())
	if s.isDraining() {
		h.Ready, h.Reason = false, stopping().Message
	}
	body := map[string]any{"ready": h.Ready}
	if h.Ready {
		answerNow(w, http.StatusOK, body)
		return
	}
	if h.Reason != "" && admitted(r.Context()) {
		body["reason"] = h.Reason
	}
	w.Header().Set("Retry-After", "1")
	answerNow(w, http.StatusServiceUnavailable, body)
}

func answerNow(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Cache-Control", "no-store")
	wire.JSON(w, status, body)
}
