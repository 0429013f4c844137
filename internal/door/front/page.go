package front

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode"
)

// About is what the first page tells of the bridge behind it.
type About struct {
	Version   string
	Answers   string // who answers: "GitHub Copilot", "the built-in rehearsal model"
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

// styledHTML is the page with its style, which is ours and not from any input.
var styledHTML = strings.Replace(pageHTML, "{{CSS}}", pageCSS, 1)

// page is the first page when no other is given: HTML for browsers, plain
// text for the rest. It loads nothing and runs no script.
type page struct {
	about  func() About
	notice string
	token  bool
	policy string // the Content-Security-Policy, which names the style by its hash
}

// shown is what the page tells.
type shown struct {
	About
	Notice string
	Key    string // what to send as a key: never the token itself
	Token  bool
	Locked bool // nothing may be told
}

// values are what the texts of the page have names for.
func (v shown) values(base string) map[string]string {
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return ""
	}
	return map[string]string{"Version": v.Version, "Answers": v.Answers, "Workspace": v.Workspace, "Home": yes(v.Workspace != ""), "ReadOnly": yes(v.ReadOnly),
		"Model": v.Model, "Notice": v.Notice, "Key": v.Key, "Token": yes(v.Token), "Locked": yes(v.Locked), "Base": base}
}

func newPage(opts Options) *page {
	hash := sha256.Sum256([]byte(pageCSS))
	return &page{
		about: opts.About, notice: opts.Notice, token: opts.Token != "",
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	about := p.about()
	for _, s := range []*string{&about.Version, &about.Answers, &about.Workspace} {
		*s = printable(*s)
	}
	if !quotable(about.Model) {
		about.Model = "MODEL"
	}
	v := shown{About: about, Notice: printable(p.notice), Key: "any", Token: p.token}
	if p.token {
		v.Key = "$COPILOT_BRIDGE_TOKEN"
	}
	p.write(w, r, http.StatusOK, v)
}

// locked answers whoever has not shown the token: to a person with a browser
// a bare error would say too little.
func (p *page) locked(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="copilot-bridge"`)
	p.write(w, r, http.StatusUnauthorized, shown{Locked: true, Token: true})
}

func (p *page) write(w http.ResponseWriter, r *http.Request, status int, v shown) {
	values := v.values("http://" + r.Host) // which the gate has checked
	var body string
	kind := "text/plain; charset=utf-8"
	if wantsHTML(r.Header) {
		kind = "text/html; charset=utf-8"
		body = fill(styledHTML, values, html.EscapeString)
	} else {
		body = fill(pageText, values, func(s string) string { return s })
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a client that has gone needs no page
}

// wantsHTML tells browsers, which name it, from tools, which take anything.
func wantsHTML(h http.Header) bool {
	return strings.Contains(strings.Join(h.Values("Accept"), ","), "text/html")
}

// quotable reports whether a name can stand in any of the examples, between
// any quotes.
func quotable(name string) bool {
	fits := func(c rune) bool {
		return strings.ContainsRune("-_.:/@+", c) || c < unicode.MaxASCII && (unicode.IsLetter(c) || unicode.IsDigit(c))
	}
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool { return !fits(c) })
}

// printable removes what a terminal might obey.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '?'
	}, s)
}
