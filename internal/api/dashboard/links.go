package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

const (
	linkTime = 10 * time.Minute
	maxLinks = 1000
	maxForm  = 64 << 10
)

// byLink is where a person was who answered with a link.
const byLink = "phone link"

// links answer one question each, once, without a login. They are kept in memory:
// they end with the server.
type links struct {
	mu   sync.Mutex
	open map[string]*link // by their token
}

type link struct {
	question string
	until    time.Time
	used     bool
}

func newLinks() *links { return &links{open: map[string]*link{}} }

// add makes the token of a link.
func (l *links) add(question string, until time.Time) (token string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, old := range l.open {
		if time.Since(old.until) > linkTime { // until then a second use is told from a wrong token
			delete(l.open, t)
		}
	}
	if len(l.open) >= maxLinks {
		return "", &bridge.Error{Code: bridge.CodeBusy, Message: "there are " + strconv.Itoa(maxLinks) + " links already", Remedy: "Wait until some have ended."}
	}
	token = rand.Text()
	l.open[token] = &link{question: question, until: until}
	return token, nil
}

// get returns the link of a token.
func (l *links) get(token string) (link, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.open[token]; found != nil {
		return *found, true
	}
	return link{}, false
}

// use marks a link as used and reports whether it was not before.
func (l *links) use(token string, used bool) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.open[token]
	first = found != nil && !found.used
	if found != nil {
		found.used = used
	}
	return first
}

// makeLink is POST /approvals/{id}/link.
func (a *API) makeLink(w http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := decode[struct{}](w, r); err != nil {
		return nil, err
	}
	q, err := live.Find(a.opts.Home, r.PathValue("id"))
	if err != nil {
		return nil, tooLate(err)
	}
	if q.Form != nil && len(q.Form.Fields) > 1 {
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "this question has a form, which a link cannot show", Remedy: "Answer it in the dashboard."}
	}
	until := time.Now().Add(linkTime)
	if !q.Until.IsZero() && q.Until.Before(until) {
		until = q.Until
	}
	token, err := a.links.add(q.ID, until)
	return map[string]any{"url": base(r) + "/approve/" + token, "expires": until.UTC()}, err
}

//go:embed approve.html
var approveHTML string

//go:embed approve.css
var approveCSS string

// approvePolicy admits the page's style by its hash.
var approvePolicy = func() string {
	hash := sha256.Sum256([]byte(approveCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// shown is what the page of a link tells.
type shown struct {
	Title    string // instead of a question
	Text     string
	Question *live.Question
	Until    string
}

// html writes the page, which has no script.
func (v shown) html() string {
	return strings.NewReplacer("{css}", approveCSS, "{content}", v.content()).Replace(approveHTML) // which looks at no value again
}

func (v shown) content() string {
	q := v.Question
	if q == nil {
		return element("h1", v.Title) + element("p", v.Text)
	}
	var b strings.Builder
	b.WriteString(element("h1", q.Lead))
	if q.Body != "" {
		b.WriteString(element("pre", q.Body))
	}
	b.WriteString("\n<dl>")
	if q.Client != "" {
		b.WriteString("\n<dt>For</dt><dd>" + html.EscapeString(q.Client) + "</dd>")
	}
	b.WriteString("\n<dt>Until</dt><dd>" + html.EscapeString(v.Until) + "</dd>\n</dl>\n<form method=\"post\">")
	if slices.Contains(q.Answers, live.Text) {
		if q.Form != nil {
			for _, choice := range q.Form.Choices {
				b.WriteString(element("p", choice))
			}
		}
		b.WriteString("\n<label for=\"text\">Answer</label>\n<textarea id=\"text\" name=\"text\" rows=\"3\"></textarea>")
	}
	for _, of := range [][2]string{{live.Text, "Answer"}, {live.Once, "Allow once"}, {live.Deny, "Deny"}, {live.Decline, "Decline"}} {
		if slices.Contains(q.Answers, of[0]) {
			b.WriteString("\n<button name=\"answer\" value=\"" + of[0] + "\">" + of[1] + "</button>")
		}
	}
	return b.String() + "\n</form>"
}

// element is an element with a text that may come from anybody.
func element(name, text string) string {
	return "\n<" + name + ">" + html.EscapeString(text) + "</" + name + ">"
}

// showLink is GET /approve/{token}. It changes nothing: programs that show previews of
// links load it too.
func (a *API) showLink(w http.ResponseWriter, r *http.Request) {
	found, q, err := a.linked(r)
	if err != nil {
		a.linkFailed(w, err)
		return
	}
	writeLink(w, http.StatusOK, shown{Question: &q, Until: found.until.Format("15:04:05 MST")})
}

// linked finds the question of a link that can be used.
func (a *API) linked(r *http.Request) (link, live.Question, error) {
	found, known := a.links.get(r.PathValue("token"))
	switch {
	case !known:
		return found, live.Question{}, refuse(http.StatusNotFound, "unknown_link", "There is no such link, or it ended some time ago.", "Make a new one in the dashboard.")
	case found.used:
		return found, live.Question{}, refuse(http.StatusGone, "used", "This link has been used.", "Make a new one in the dashboard if the question is still open.")
	case time.Now().After(found.until):
		return found, live.Question{}, refuse(http.StatusGone, "gone", "The time of this link is over.", "Make a new one in the dashboard if the question is still open.")
	}
	q, err := live.Find(a.opts.Home, found.question)
	return found, q, tooLate(err)
}

// useLink is POST /approve/{token}.
func (a *API) useLink(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	token := r.PathValue("token")
	found, _, err := a.linked(r)
	if err == nil {
		err = r.ParseForm()
		if err != nil {
			err = invalid("the form cannot be read", "Open the link again.")
		}
	}
	reply := live.Reply{Answer: r.PostForm.Get("answer"), Text: strings.TrimSpace(r.PostForm.Get("text")), By: byLink}
	if err == nil && !slices.Contains([]string{live.Once, live.Deny, live.Text, live.Decline}, reply.Answer) {
		err = invalid("a link answers with "+live.Once+", "+live.Deny+", "+live.Text+" or "+live.Decline, "Open the link again.")
	}
	if err == nil {
		if !a.links.use(token, true) {
			err = refuse(http.StatusGone, "used", "This link has been used.", "")
		} else if err = tooLate(live.Answer(a.opts.Home, found.question, reply)); err != nil {
			a.links.use(token, isRefusal(err)) // what failed otherwise may be tried again
		}
	}
	if isRefusal(err) && found.question != "" && a.opts.LinkRefused != nil {
		a.opts.LinkRefused(r.Context(), found.question, err.Error())
	}
	if err != nil {
		a.linkFailed(w, err)
		return
	}
	said := reply.Said()
	writeLink(w, http.StatusOK, shown{Title: strings.ToUpper(said[:1]) + said[1:] + ".", Text: "You can close this page."})
}

func (a *API) linkFailed(w http.ResponseWriter, err error) {
	status, message, remedy := describe(err)
	writeLink(w, status, shown{Title: message, Text: remedy})
}

func writeLink(w http.ResponseWriter, status int, v shown) {
	body := v.html()
	h := w.Header()
	pageHeaders(h, approvePolicy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a client that has gone needs no page
}
