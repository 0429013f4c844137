package httpserver

import (
	_ "embed"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
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
}

// shown is what the page tells; it never has the token itself.
type shown struct {
	About
	Base   string
	Notice string
	Token  bool
	Locked bool // nothing may be told
}

func (v shown) text() string {
	if v.Locked {
		return "Copilot Bridge is running and asks for a token. Send the one that it was started with:\n\n  curl " + v.Base + `/ -H "Authorization: Bearer $COPILOT_BRIDGE_TOKEN"` + "\n"
	}
	access := "read and write, as the policy allows"
	if v.ReadOnly {
		access = "read-only"
	}
	need, key, header, imports, argument, setting := "no key; any will be accepted", "any", "", "", `"any"`, ""
	if v.Token {
		need, key, header = "the token; the examples expect it in COPILOT_BRIDGE_TOKEN", "$COPILOT_BRIDGE_TOKEN", "\n    -H \"Authorization: Bearer $COPILOT_BRIDGE_TOKEN\" \\"
		imports, argument, setting = "  import os\n", `os.environ["COPILOT_BRIDGE_TOKEN"]`, "\n  env_key = \"COPILOT_BRIDGE_TOKEN\""
	}
	return strings.NewReplacer(
		"{version}", line(", version ", v.Version, ""), "{notice}", line("\n! ", v.Notice, "\n"),
		"{answers}", line("\nAnswers come from: ", v.Answers, ""), "{workspace}", line("\nWorkspace:         ", v.Workspace, " ("+access+")"),
		"{base}", v.Base, "{model}", v.Model,
		"{need}", need, "{key}", key, "{header}", header, "{imports}", imports, "{argument}", argument, "{setting}", setting,
	).Replace(pageText) // which looks at no value again
}

// line is a value with what stands around it, or nothing if there is no value.
func line(before, value, after string) string {
	if value == "" {
		return ""
	}
	return before + value + after
}

func newPage(opts Options) *page {
	return &page{about: opts.About, notice: opts.Notice, token: opts.Token != ""}
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	about := p.about()
	for _, s := range []*string{&about.Version, &about.Answers, &about.Workspace} {
		*s = printable(*s)
	}
	if !quotable.MatchString(about.Model) {
		about.Model = "MODEL"
	}
	writePage(w, r, http.StatusOK, shown{About: about, Notice: printable(p.notice), Token: p.token})
}

// locked answers requests without the token.
func (p *page) locked(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="copilot-bridge"`)
	writePage(w, r, http.StatusUnauthorized, shown{Locked: true, Token: true})
}

func writePage(w http.ResponseWriter, r *http.Request, status int, v shown) {
	v.Base = "http://" + r.Host // which the gate has checked
	body := v.text()
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a client that has gone needs no page
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
