package guard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// Reveal hides secrets in the texts of a result, records that, and returns how
// many there were.
func (g *Guard) Reveal(ctx context.Context, call bridge.ToolCall, texts ...*string) (int, error) {
	v := g.view(ctx, call)
	g.ended(call, false)
	for _, t := range texts {
		v.Hide(t)
	}
	if v.failed != nil {
		v.hidden = 0
	}
	return v.hidden, v.End(ctx)
}

// RevealPart is Reveal for a part of a text: secrets are looked for in the
// whole, which shows what the part alone does not, such as the header above the
// lines of a private key. cut gets the whole with its lines in their places.
func (g *Guard) RevealPart(ctx context.Context, call bridge.ToolCall, text *string, cut func(string) string) (int, error) {
	v := g.view(ctx, call)
	v.HideLines(text)
	if v.failed != nil {
		return 0, g.recordResult(ctx, call, nil, nil, 0, withheld(v.failed), v.began)
	}
	*text = cut(*text)
	v.hidden = strings.Count(*text, redact.Marker)
	v.result.add(*text)
	return v.hidden, v.End(ctx)
}

// Returned records the result of a call that holds no text which could be
// secret.
func (g *Guard) Returned(ctx context.Context, call bridge.ToolCall, result any) error {
	v := g.view(ctx, call)
	g.ended(call, false)
	text := encoded(result)
	v.result.add(text)
	sum := v.result.sum()
	head, _ := g.results.String(text[:min(len(text), maxResult)]) // a secret that the end cuts is not in the preview
	sum.Preview = preview(head)
	return g.recordResult(ctx, call, nil, sum, 0, nil, v.began)
}

// View is MayRead and Reveal for the results of one call that come in many
// pieces, such as the hits of a search.
func (g *Guard) View(ctx context.Context, call bridge.ToolCall) bridge.View { return g.view(ctx, call) }

func (g *Guard) view(ctx context.Context, call bridge.ToolCall) *view {
	return &view{ctx: ctx, guard: g, call: call, began: time.Now()}
}

type view struct {
	ctx   context.Context // of the call, which the view does not outlive
	guard *Guard
	call  bridge.ToolCall
	began time.Time

	hidden int
	result returned
	failed error
}

func (v *view) MayRead(path string) bool { return v.guard.MayRead(path) }

func (v *view) Hide(text *string) {
	v.hide(text, v.guard.results.StringContext)
	v.result.add(*text)
}

func (v *view) HideLines(text *string) { v.hide(text, v.guard.results.Lines) }

func (v *view) hide(text *string, mask func(context.Context, string) (string, int, error)) {
	defer func() {
		if p := recover(); p != nil {
			*text, v.failed = "", fmt.Errorf("the result is withheld, because secrets in it could not be looked for: %v", p)
		}
	}()
	clean, n, err := mask(v.ctx, *text)
	if *text = clean; err != nil {
		v.failed = err
	}
	v.hidden += n
}

func (v *view) End(ctx context.Context) error {
	return v.guard.recordResult(ctx, v.call, nil, v.result.sum(), v.hidden, v.failed, v.began)
}

// maxPreview is how many characters of a result the record shows.
const maxPreview = 200

// returned gathers the texts of a result for the record. They have no secrets.
type returned struct {
	hash    hash.Hash
	size    int
	preview []byte
}

func (r *returned) add(text string) {
	if text == "" {
		return
	}
	if r.hash == nil {
		r.hash = sha256.New()
	} else {
		r.put("\n")
	}
	r.put(text)
}

func (r *returned) put(text string) {
	_, _ = io.WriteString(r.hash, text) // never fails
	r.size += len(text)
	if room := maxPreview*utf8.UTFMax - len(r.preview); room > 0 {
		r.preview = append(r.preview, text[:min(len(text), room)]...)
	}
}

func (r *returned) sum() *audit.Result {
	if r.hash == nil {
		r.hash = sha256.New()
	}
	return &audit.Result{Bytes: r.size, SHA256: hex.EncodeToString(r.hash.Sum(nil)), Preview: preview(string(r.preview))}
}

// preview is the beginning of a text without secrets.
func preview(text string) string {
	text = strings.ToValidUTF8(text, "")
	n := 0
	for i := range text {
		if n++; n > maxPreview {
			return text[:i]
		}
	}
	return text
}

// textOf is what a result of an agent's tool says.
func textOf(result any) string {
	switch r := result.(type) {
	case string:
		return r
	case map[string]any:
		if text, ok := r["textResultForLlm"].(string); ok {
			return text
		}
	}
	return encoded(result)
}
