package vscode

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestTwoWindowsAtOnce: each has a bridge, a port and a folder of its own.
func TestTwoWindowsAtOnce(t *testing.T) {
	one := sharedWindow(t)
	c1 := one.ready(t)
	put(t, filepath.Join(one.folder, "who.txt"), "the first window\n")
	two := one.desk.open(t, workspace(t, map[string]string{"who.txt": "the second window\n"}))
	c2 := two.on(t, "OK")
	if c1.url == c2.url {
		t.Fatalf("both are at %s", c1.url)
	}
	for c, want := range map[*client]string{c1: "the first window\n", c2: "the second window\n"} {
		if r := c.bus(t).must(t, "mcp.fs.read", map[string]any{"path": "who.txt"}); r["content"] != want {
			t.Errorf("%s reads %v", c.url, r)
		}
		if got := c.streams(t.Context(), t, say("gpt-test", "hello")).all(t); got.text != "Hello from the model." {
			t.Errorf("%s says %+v", c.url, got)
		}
	}
	if all, each := one.desk.bridges(), append(one.pids(), two.pids()...); len(all) != 2 || len(each) != 2 {
		t.Errorf("there are %v, and %v of these windows", all, each)
	}
}

// TestReloadLeavesNoProcess: the bridge ends with the window and comes back
// with it, at the same address.
func TestReloadLeavesNoProcess(t *testing.T) {
	d := sharedDesk(t)
	w := d.open(t, workspace(t, files))
	before := w.ready(t)
	old := w.pids()
	if len(old) != 1 {
		t.Fatalf("there are %d bridges", len(old))
	}
	w.act(t, "reload", chromedp.Reload())
	w.settled(t)
	until(t, "the old bridge ends", patience, func() (string, bool) {
		now := w.pids()
		return fmt.Sprint(now), len(now) == 1 && now[0].pid != old[0].pid
	})
	if after := w.on(t, "OK"); after.url != before.url {
		t.Errorf("it was at %s and is at %s", before.url, after.url)
	}
}

// TestDisableClosesThePorts, ends the process, and enable brings both back.
func TestDisableClosesThePorts(t *testing.T) {
	w := sharedWindow(t)
	c := w.ready(t)
	w.palette(t, "Bridge: Disable")
	until(t, "the bridge ends", patience, func() (string, bool) {
		left := w.pids()
		return fmt.Sprint(left), len(left) == 0
	})
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(c.url, "http://"), 5*time.Second)
	if err == nil {
		_ = conn.Close()
		t.Error("the port still answers")
	}
	until(t, "the status bar", patience, func() (string, bool) {
		text := w.statusBar(t)
		return text, !strings.Contains(text, "Bridge:")
	})
	if left := c.windows(t); len(left) > 0 {
		t.Errorf("the files are left: %v", left)
	}
	w.palette(t, "Bridge: Enable")
	w.on(t, "OK")
	if said := w.dialog(t); said != "" {
		t.Errorf("it asks again: %q", said)
	}
}

// TestKilledBridgeIsStartedAgain.
func TestKilledBridgeIsStartedAgain(t *testing.T) {
	w := sharedWindow(t)
	w.ready(t)
	old := w.pids()
	if len(old) != 1 {
		t.Fatalf("there are %d bridges", len(old))
	}
	if err := syscall.Kill(old[0].pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "another bridge", patience, func() (string, bool) {
		now := w.pids()
		return fmt.Sprint(now), len(now) == 1 && now[0].pid != old[0].pid
	})
	c := w.on(t, "OK")
	if got := c.streams(t.Context(), t, say("gpt-test", "hello")).all(t); got.text != "Hello from the model." {
		t.Errorf("got %+v", got)
	}
}

// TestTabThatGoesEndsTheRequest: the extension host lives on for hours, and
// what it asks of the window is never answered; the client hears of it all the
// same.
func TestTabThatGoesEndsTheRequest(t *testing.T) {
	d := ownDesk(t, map[string]any{"bridge.enabled": true, "bridge.readOnly": true})
	w := d.open(t, workspace(t, files))
	c := w.ready(t)
	stop := make(chan struct{})
	defer close(stop)
	d.vendor.says(func(ctx context.Context, _ *asked, say func(part)) {
		say(part{Type: "text", Text: "one "})
		select { // silent until the end
		case <-ctx.Done():
		case <-stop:
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := c.streams(ctx, t, say("gpt-test", "go on for ever"))
	for {
		got, done, err := s.next()
		if err != nil || done {
			t.Fatalf("ended early: %v", err)
		}
		if len(got.Choices) > 0 && got.Choices[0].Delta.Content != "" {
			break
		}
	}
	began := time.Now()
	w.kill(t)
	got := s.all(t)
	t.Logf("the request ended after %v", time.Since(began).Round(time.Second))
	if got.fault == "" || time.Since(began) > time.Minute {
		t.Errorf("after %v: %+v", time.Since(began), got)
	}
}

// TestMCPServerIsOffered: VS Code lists the tool bus as an MCP server and can
// start it.
func TestMCPServerIsOffered(t *testing.T) {
	w := sharedWindow(t)
	c := w.ready(t)
	w.palette(t, "MCP: List Servers")
	until(t, "the list of servers", patience, func() (string, bool) {
		rows := w.eval(t, `[...document.querySelectorAll('.quick-input-widget .monaco-list-row')].map((r) => r.innerText).join('\n')`)
		return fmt.Sprintf("%q", rows), strings.Contains(rows, "Copilot Bridge")
	})
	w.shoot(t, "mcp")
	if status, _ := c.ask(t, http.MethodGet, "/mcp", nil); status == http.StatusNotFound {
		t.Error("there is nothing at /mcp")
	}
}

// kill ends the tab as a crash would: nothing in it hears of it.
func (w *window) kill(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	// A crash of the page; that the call itself does not return is part of it.
	_, err := chromedp.Run(ctx, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, page.Crash, cdp.Empty{})
		return err
	}))
	t.Logf("the tab: %v", err)
}
