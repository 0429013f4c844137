package guard

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
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
		return 0, g.recordResult(ctx, call, nil, 0, withheld(v.failed), v.began)
	}
	*text = cut(*text)
	v.hidden, v.size = strings.Count(*text, redact.Marker), len(*text)
	return v.hidden, v.End(ctx)
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

	hidden, size int
	failed       error
}

func (v *view) MayRead(path string) bool { return v.guard.MayRead(path) }

func (v *view) Hide(text *string) { v.hide(text, v.guard.results.StringContext) }

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
	v.hidden, v.size = v.hidden+n, v.size+len(clean)
}

func (v *view) End(ctx context.Context) error {
	return v.guard.recordResult(ctx, v.call, map[string]any{"bytes": v.size}, v.hidden, v.failed, v.began)
}
