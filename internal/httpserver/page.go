package httpserver

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	htmltemplate "html/template"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"unicode"
)

// About is what the first page tells of the bridge behind it.
type About struct {
	Version   string
	Answers   string // who answers: "GitHub Copilot", "the built-in demo model"
	Workspace string // where agent/… models work
	ReadOnly  bool
	Model     string // for the examples; an id from /v1/models
}

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.txt
var pageText string

// page is the first page, as HTML or plain text. It loads nothing and runs no
// script.
type page struct {
	about  func() About
	notice string
	token  bool
	policy string // the Content-Security-Policy, which names the style by its hash
	html   *htmltemplate.Template
	text   *template.Template
}

// shown is what the templates can tell.
type shown struct {
	About
	Base   string
	Notice string
	Key    string // what to send as a key: never the token itself
	Token  bool
	Locked bool // nothing may be told
	CSS    htmltemplate.CSS
}

func newPage(opts Options) *page {
	hash := sha256.Sum256([]byte(pageCSS))
	return &page{
		about: opts.About, notice: opts.Notice, token: opts.Token != "",
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		html: htmltemplate.Must(htmltemplate.New("page").Parse(pageHTML)),
		text: template.Must(template.New("page").Parse(pageText)),
	}
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

// locked answers requests without the token, with a page for people.
func (p *page) locked(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="copilot-bridge"`)
	p.write(w, r, http.StatusUnauthorized, shown{Locked: true, Token: true})
}

func (p *page) write(w http.ResponseWriter, r *http.Request, status int, v shown) {
	v.Base = "http://" + r.Host // which the gate has checked
	v.CSS = htmltemplate.CSS(pageCSS)
	var body bytes.Buffer
	kind, execute := "text/plain; charset=utf-8", p.text.Execute
	if wantsHTML(r.Header) {
		kind, execute = "text/html; charset=utf-8", p.html.Execute
	}
	if err := execute(&body, v); err != nil {
		refuse(w, r, internal, "The page could not be made.")
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
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
