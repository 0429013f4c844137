package sdk

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// account is what GitHub says of the user's account. A nil one is not known.
type account struct {
	login  string
	chat   bool   // Copilot's chat is enabled
	resets string // the day on which the quota starts anew
	models []rpc.Model
}

func (a *account) name() string {
	if a == nil || a.login == "" {
		return "the GitHub account"
	}
	return "the GitHub account " + a.login
}

// model finds a model of the list.
func (a *account) model(id string) (rpc.Model, bool) {
	if a == nil {
		return rpc.Model{}, false
	}
	i := slices.IndexFunc(a.models, func(m rpc.Model) bool { return m.ID == id })
	if i < 0 {
		return rpc.Model{}, false
	}
	return a.models[i], true
}

// policy is the state of a model's policy for this account: "enabled",
// "disabled", "unconfigured", or "" if GitHub has sent none.
func (a *account) policy(id string) string {
	if m, ok := a.model(id); ok && m.Policy != nil {
		return string(m.Policy.State)
	}
	return ""
}

// quota says when the quota starts anew, if that is to come, and which models
// cost nothing of it.
func (a *account) quota() (resets string, free []string) {
	if a == nil {
		return "", nil
	}
	if day, err := time.Parse(time.DateOnly, a.resets); err == nil && day.After(time.Now()) {
		resets = a.resets
	}
	for _, m := range a.models {
		if m.Billing != nil && m.Billing.Multiplier != nil && *m.Billing.Multiplier == 0 {
			free = append(free, m.ID)
		}
	}
	return resets, free
}

const (
	// lookupWithin bounds a look-up of the account: the runtime itself would wait
	// for ever. probeWithin bounds the search for the reason.
	lookupWithin = 8 * time.Second
	probeWithin  = 4 * time.Second
	// lookupAgain is the pause after a look-up that failed.
	lookupAgain = 2 * time.Second
	// clockOff is how far off a clock may be.
	clockOff = 10 * time.Minute
)

// account looks up whose account it is and which models it may use, once for each
// process. Its error explains why GitHub cannot answer. The runtime would not report
// that when a session is opened, but only when the first turn fails.
func (h *host) account(ctx context.Context, p *process) (*account, error) {
	if known := p.account.Load(); known != nil || h.opts.Provider != nil {
		return known, nil
	}
	began := time.Now()
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return nil, h.unanswered(ctx, p, began)
	}
	if known := p.account.Load(); known != nil {
		return known, nil
	}
	if why := p.refused.Load(); why != nil && time.Now().Before(p.askAgain) {
		return nil, why
	}
	known, err := h.lookUp(ctx, p)
	switch {
	case err == nil:
		p.account.Store(known)
	case ctx.Err() != nil:
		return nil, h.unanswered(ctx, p, began)
	default:
		p.refused.Store(bridge.AsError(err))
		p.askAgain = time.Now().Add(lookupAgain)
	}
	return known, err
}

// mayAsk says why a session would not be answered, as far as that is known before.
func (h *host) mayAsk(ctx context.Context, p *process, spec bridge.SessionSpec) error {
	if spec.Provider != nil {
		return nil
	}
	known, err := h.account(ctx, p)
	if err != nil || known == nil || spec.Model == "" {
		return err
	}
	// The runtime would let another model answer.
	if _, there := known.model(spec.Model); !there {
		return h.problem(bridge.ProblemModelUnknown, "GitHub does not offer this account the model %s", spec.Model)
	}
	return nil
}

// unanswered is the error for a caller that has not waited for the answer: that
// of the last look-up, if there was one.
func (h *host) unanswered(ctx context.Context, p *process, began time.Time) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	if why := p.refused.Load(); why != nil {
		return why
	}
	return h.problem(bridge.ProblemUnreachable, "GitHub has not answered within %s", wordsFor(time.Since(began)))
}

func (h *host) lookUp(ctx context.Context, p *process) (*account, error) {
	bounded, cancel := context.WithTimeout(ctx, lookupWithin)
	defer cancel()
	var auth *rpc.AccountGetCurrentAuthResult
	err := p.call(func(c *copilot.Client) (err error) { auth, err = c.RPC.Account.GetCurrentAuth(bounded); return err })
	if err != nil {
		return nil, h.lookupFailed(ctx, bounded, err)
	}
	known := accountOf(auth.AuthInfo)
	if known == nil {
		return nil, h.refusal(ctx, strings.Join(auth.AuthErrors, "; "))
	}
	var list *rpc.ModelList
	err = p.call(func(c *copilot.Client) (err error) {
		list, err = c.RPC.Models.List(bounded, &rpc.ModelsListRequest{})
		return err
	})
	if err != nil {
		if e := h.listProblem(ctx, err.Error(), known); e != nil && bounded.Err() == nil {
			return nil, e
		}
		return nil, h.lookupFailed(ctx, bounded, err)
	}
	known.models = list.Models
	return known, nil
}

// lookupFailed is the error for a question that the runtime has not answered.
func (h *host) lookupFailed(ctx, bounded context.Context, err error) error {
	if bounded.Err() != nil && ctx.Err() == nil {
		return h.unreachable(ctx, "")
	}
	return h.explain(err, "look up the GitHub account")
}

// refusal names the problem of a look-up that failed, from the runtime's words.
func (h *host) refusal(ctx context.Context, words string) error {
	if words == "" {
		return h.problem(bridge.ProblemLogin, "nobody is logged in to GitHub Copilot")
	}
	if e := h.lookupProblem(words); e != nil {
		return e
	}
	if at := badURL.FindStringSubmatch(words); at != nil {
		return h.unreachable(ctx, at[1])
	}
	e := h.problem(bridge.ProblemFault, "the GitHub account could not be looked up (%s)", words)
	if strings.Contains(words, "validation failed") {
		e.Remedy = inBetween
	}
	return e
}

// accountOf reads what the runtime knows of the login; nil without one.
func accountOf(auth rpc.AuthInfo) *account {
	var user *rpc.CopilotUserResponse
	out := &account{chat: true}
	switch a := auth.(type) {
	case nil:
		return nil
	case *rpc.TokenAuthInfo:
		user = a.CopilotUser
	case *rpc.EnvAuthInfo:
		user, out.login = a.CopilotUser, str(a.Login)
	case *rpc.UserAuthInfo:
		user, out.login = a.CopilotUser, a.Login
	case *rpc.GhCLIAuthInfo:
		user, out.login = a.CopilotUser, a.Login
	}
	if user != nil {
		if user.Login != nil {
			out.login = *user.Login
		}
		out.chat, out.resets = user.ChatEnabled == nil || *user.ChatEnabled, str(user.QuotaResetDate)
	}
	return out
}

// unreachable finds out why GitHub does not answer, which the runtime does not
// tell. It connects to the public host without credentials and looks at the
// certificate and the time.
func (h *host) unreachable(ctx context.Context, host string) *bridge.Error {
	if host == "" {
		host = apiHost(h.githubHost())
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+host+"/", nil)
	if err != nil {
		return h.problem(bridge.ProblemUnreachable, "GitHub cannot be reached: %s is no host", host)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return h.notConnected(host, err)
	}
	_ = resp.Body.Close() // there is none
	if there, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		if off := time.Since(there); off.Abs() > clockOff {
			word := "ahead of"
			if off < 0 {
				word = "behind"
			}
			return h.problem(bridge.ProblemClock, "this machine's clock is %s %s GitHub's", wordsFor(off.Abs()), word)
		}
	}
	return h.problem(bridge.ProblemUnreachable, "GitHub does not answer: %s can be reached, but has not said whose account it is within %s", host, wordsFor(lookupWithin))
}

// notConnected names the problem of a connection that could not be made.
func (h *host) notConnected(host string, err error) *bridge.Error {
	var (
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		unknown  *net.DNSError
		deadline interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		e := h.problem(bridge.ProblemClock, "the certificate of %s is valid from %s on, and this machine's clock is before that", host, invalid.Cert.NotBefore.UTC().Format(time.DateOnly))
		if past := invalid.Cert.NotAfter; time.Now().After(past) {
			e.Message = "the certificate of " + host + " was valid until " + past.UTC().Format(time.DateOnly) + ", and this machine's clock is past that"
		}
		e.Remedy += "; if it is right, the certificate is at fault"
		return e
	case errors.As(err, &verify):
		issuer := ""
		if len(verify.UnverifiedCertificates) > 0 {
			issuer = " by " + verify.UnverifiedCertificates[0].Issuer.String()
		}
		return h.problem(bridge.ProblemCertificate, "the certificate of %s, issued%s, is not trusted", host, issuer)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return h.problem(bridge.ProblemUnreachable, "GitHub cannot be reached: there is no host %s", unknown.Name)
	case errors.As(err, &unknown):
		return h.problem(bridge.ProblemUnreachable, "GitHub cannot be reached: the name %s cannot be looked up", unknown.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return h.problem(bridge.ProblemUnreachable, "GitHub cannot be reached: %s refuses connections", host)
	case errors.As(err, &deadline) && deadline.Timeout():
		return h.problem(bridge.ProblemUnreachable, "GitHub cannot be reached: %s does not answer", host)
	}
	return h.problem(bridge.ProblemUnreachable, "GitHub cannot be reached: %v", err)
}

// apiHost is where the runtime looks accounts up.
func apiHost(host string) string {
	name, _, err := net.SplitHostPort(host)
	switch {
	case host == "":
		return "api.github.com"
	case err == nil || net.ParseIP(name) != nil || net.ParseIP(host) != nil:
		return host
	}
	return "api." + host
}
