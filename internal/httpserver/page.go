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

//go:embed page.js
var pageJS string

//go:embed page.txt
var pageText string

// docs is where the documentation is read.
const docs = "https://github.com/copilot-bridge/copilot-bridge/blob/main/docs/"

// page is the first page, as HTML or plain text. It loads nothing but the bridge's own
// API, and its only script is page.js, which shows what models say as text.
type page struct {
	about  func() About
	notice string
	token  bool
	policy string // the Content-Security-Policy, which names style and script by their hashes
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
	Wrong  bool // the token that was sent in the form
	Docs   string
	CSS    htmltemplate.CSS
	JS     htmltemplate.JS
}

func newPage(opts Options) *page {
	return &page{
		about: opts.About, notice: opts.Notice, token: opts.Token != "",
		policy: "default-src 'none'; style-src '" + hashOf(pageCSS) + "'; script-src '" + hashOf(pageJS) +
			"'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		html: htmltemplate.Must(htmltemplate.New("page").Parse(pageHTML)),
		text: template.Must(template.New("page").Parse(pageText)),
	}
}

func hashOf(s string) string {
	hash := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(hash[:])
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

// locked answers requests without the token, with a form for people. wrong says
// that the form was sent with another token.
func (p *page) locked(w http.ResponseWriter, r *http.Request, wrong bool) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="copilot-bridge"`)
	p.write(w, r, http.StatusUnauthorized, shown{Locked: true, Token: true, Wrong: wrong})
}

func (p *page) write(w http.ResponseWriter, r *http.Request, status int, v shown) {
	v.Base = "http://" + r.Host                                                    // which the gate has checked
	v.CSS, v.JS, v.Docs = htmltemplate.CSS(pageCSS), htmltemplate.JS(pageJS), docs //nolint:gosec // both are ours, and named by their hashes
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
	h.Set("Referrer-Policy", "same-origin") // without a referrer, forms would send no origin
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
