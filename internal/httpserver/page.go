package httpserver

import (
	"bytes"
	_ "embed"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"unicode"
)

// About is what the plain text at "/" tells of the bridge behind it.
type About struct {
	Version   string
	Answers   string // who answers: "GitHub Copilot", "the built-in demo model"
	Workspace string // where agent/… models work
	ReadOnly  bool
	Model     string // for the examples; an id from /v1/models
}

//go:embed page.txt
var pageText string

// page is "/" as plain text, for programs; browsers get Options.Page.
type page struct {
	about  func() About
	notice string
	token  bool
	text   *template.Template
}

// shown is what the template can tell.
type shown struct {
	About
	Base   string
	Notice string
	Key    string // what to send as a key: never the token itself
	Token  bool
	Locked bool // nothing may be told
}

func newPage(opts Options) *page {
	return &page{about: opts.About, notice: opts.Notice, token: opts.Token != "", text: template.Must(template.New("page").Parse(pageText))}
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	about := p.about()
	for _, s := range []*string{&about.Version, &about.Answers, &about.Workspace} {
		*s = printable(*s)
	}
	if !quotable.MatchString(about.Model) {
		about.Model = "MODEL"
	}
	v := shown{About: about, Notice: printable(p.notice), Key: "any", Token: p.token}
	if p.token {
		v.Key = "$COPILOT_BRIDGE_TOKEN"
	}
	p.write(w, r, http.StatusOK, v)
}

// locked answers requests without the token.
func (p *page) locked(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="copilot-bridge"`)
	p.write(w, r, http.StatusUnauthorized, shown{Locked: true, Token: true})
}

func (p *page) write(w http.ResponseWriter, r *http.Request, status int, v shown) {
	v.Base = "http://" + r.Host // which the gate has checked
	var body bytes.Buffer
	if err := p.text.Execute(&body, v); err != nil {
		refuse(w, r, internal, "The page could not be made.")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // a client that has gone needs no page
}

// wantsHTML tells browsers, which name it, from tools, which take anything.
func wantsHTML(h http.Header) bool {
	return strings.Contains(strings.Join(h.Values("Accept"), ","), "text/html")
}

// quotable is a name that can stand in any of the examples, between any quotes.
var quotable = regexp.MustCompile(`^[A-Za-z0-9_.:/@+-]+$`)

// printable removes what a terminal might obey.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '?'
	}, s)
}
