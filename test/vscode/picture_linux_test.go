package vscode

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// TestPicture takes the picture of the bridge with its status bar tooltip. The
// picture in docs/images is a copy of build/vscode/vscode.png.
func TestPicture(t *testing.T) {
	w := sharedWindow(t)
	c := w.ready(t)
	if got := c.streams(t.Context(), t, chatRequest("gpt-test", "hello")).all(t); got.text == "" {
		t.Fatalf("got %+v", got)
	}
	w.palette(t, "View: Close All Editors")
	w.edit(t, "src/payment.ts")
	at := strings.Fields(w.eval(t, `(() => { const r = [...document.querySelectorAll('.part.statusbar .statusbar-item')]
		.find((i) => i.innerText.includes('Bridge: ON')).getBoundingClientRect(); return (r.x + r.width / 2) + ' ' + (r.y + r.height / 2); })()`))
	x, err1 := strconv.ParseFloat(at[0], 64)
	y, err2 := strconv.ParseFloat(at[1], 64)
	if err1 != nil || err2 != nil {
		t.Fatalf("the item is at %q", at)
	}
	var tip string
	waitUntil(t, "the tooltip", patience, func() (string, bool) {
		w.runSteps(t, "move the mouse", move(x-20, y-60), move(x, y), move(x+2, y))
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 50 { // the tooltip appears when the mouse has rested for a while
			tip = strings.ReplaceAll(w.eval(t, `[...document.querySelectorAll('.monaco-hover')].map((h) => h.innerText).join('\n')`), "\u00a0", " ")
			if strings.Contains(tip, "Requests:") {
				return tip, true
			}
			<-tick.C
		}
		return tip, false
	})
	for _, want := range []string{"OpenAI: " + c.url + "/v1", "Tool bus: ws://127.0.0.1:", "MCP: " + c.url + "/mcp", "read-only", "Copilot: ok"} {
		if !strings.Contains(tip, want) {
			t.Errorf("the tooltip lacks %q: %q", want, tip)
		}
	}
	w.savePicture(t, "vscode")
}

func move(x, y float64) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mouseMoved", X: x, Y: y})
		return err
	})
}
