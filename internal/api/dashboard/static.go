package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// static has the page: index.html for "/", all else for /assets/. There is no
// build step.
//
//go:embed static
var static embed.FS

// pagePolicy lets the page load what this server has, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// kinds are the types of files that are served; others are not.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".txt": "text/plain; charset=utf-8",
}

// pages are the embedded files by their names.
type pages struct{ files map[string]file }

type file struct {
	data       []byte
	kind, etag string
}

func newPages() *pages {
	p := &pages{files: map[string]file{}}
	_ = fs.WalkDir(static, "static", func(name string, d fs.DirEntry, _ error) error { // the files are in the program
		if kind := kinds[path.Ext(name)]; kind != "" && !d.IsDir() {
			data, _ := static.ReadFile(name)
			hash := sha256.Sum256(data)
			p.files[strings.TrimPrefix(name, "static/")] = file{data, kind, `"` + hex.EncodeToString(hash[:12]) + `"`}
		}
		return nil
	})
	return p
}

func (p *pages) index(w http.ResponseWriter, r *http.Request) { p.write(w, r, "index.html") }

func (p *pages) asset(w http.ResponseWriter, r *http.Request) {
	p.write(w, r, strings.TrimPrefix(r.URL.Path, "/assets/"))
}

func (p *pages) write(w http.ResponseWriter, r *http.Request, name string) {
	f, there := p.files[name]
	if !there {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	pageHeaders(h, pagePolicy)
	h.Set("Cache-Control", "no-cache") // it may be kept, but has to be asked about
	h.Set("ETag", f.etag)
	h.Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(f.data)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(f.data) // a client that has gone needs no page
	}
}

// pageHeaders are those of everything that a browser shows.
func pageHeaders(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // without a referrer, forms would send no origin
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}
