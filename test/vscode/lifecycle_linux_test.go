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

// TestTwoWindowsAtOnce: each window has its own bridge, port and folder.
func TestTwoWindowsAtOnce(t *testing.T) {
	one := sharedWindow(t)
	c1 := one.ready(t)
	writeFile(t, filepath.Join(one.folder, "who.txt"), "the first window\n")
	two := one.testbed.open(t, workspace(t, map[string]string{"who.txt": "the second window\n"}))
	c2 := two.waitOn(t, "OK")
	if c1.url == c2.url {
		t.Fatalf("both are at %s", c1.url)
	}
	for c, want := range map[*client]string{c1: "the first window\n", c2: "the second window\n"} {
		if r := c.bus(t).mustCall(t, "mcp.fs.read", map[string]any{"path": "who.txt"}); r["content"] != want {
			t.Errorf("%s reads %v", c.url, r)
		}
		if got := c.streams(t.Context(), t, chatRequest("gpt-test", "hello")).all(t); got.text != "Hello from the model." {
			t.Errorf("%s says %+v", c.url, got)
		}
	}
	if all, each := one.testbed.bridges(), append(one.pids(), two.pids()...); len(all) != 2 || len(each) != 2 {
		t.Errorf("bridges: %v, of these windows: %v", all, each)
	}
}

// TestReloadLeavesNoProcess: the bridge ends with the window and restarts with
// it, at the same address.
func TestReloadLeavesNoProcess(t *testing.T) {
	d := sharedTestbed(t)
	w := d.open(t, workspace(t, files))
	before := w.ready(t)
	old := w.pids()
	if len(old) != 1 {
		t.Fatalf("there are %d bridges", len(old))
	}
	w.runSteps(t, "reload", chromedp.Reload())
	w.waitLoaded(t)
	waitUntil(t, "the old bridge ends", patience, func() (string, bool) {
		now := w.pids()
		return fmt.Sprint(now), len(now) == 1 && now[0].pid != old[0].pid
	})
	if after := w.waitOn(t, "OK"); after.url != before.url {
		t.Errorf("the address was %s and is %s", before.url, after.url)
	}
}

// TestDisableClosesThePorts: disabling also ends the process, and enabling
// restarts it.
func TestDisableClosesThePorts(t *testing.T) {
	w := sharedWindow(t)
	c := w.ready(t)
	w.palette(t, "Bridge: Disable")
	waitUntil(t, "the bridge ends", patience, func() (string, bool) {
		left := w.pids()
		return fmt.Sprint(left), len(left) == 0
	})
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(c.url, "http://"), 5*time.Second)
	if err == nil {
		_ = conn.Close()
		t.Error("the port still answers")
	}
	waitUntil(t, "the status bar", patience, func() (string, bool) {
		text := w.statusBar(t)
		return text, !strings.Contains(text, "Bridge:")
	})
	if left := c.windows(t); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	w.palette(t, "Bridge: Enable")
	w.waitOn(t, "OK")
	if said := w.dialog(t); said != "" {
		t.Errorf("the user is asked again: %q", said)
	}
}

// TestKilledBridgeIsStartedAgain: the extension restarts a killed bridge.
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
	waitUntil(t, "another bridge", patience, func() (string, bool) {
		now := w.pids()
		return fmt.Sprint(now), len(now) == 1 && now[0].pid != old[0].pid
	})
	c := w.waitOn(t, "OK")
	if got := c.streams(t.Context(), t, chatRequest("gpt-test", "hello")).all(t); got.text != "Hello from the model." {
		t.Errorf("got %+v", got)
	}
}

// TestTabThatGoesEndsTheRequest: when the browser tab crashes, the extension
// host lives on for hours, and its calls to the window stay unanswered. The
// client's request must end nevertheless.
func TestTabThatGoesEndsTheRequest(t *testing.T) {
	d := ownTestbed(t, map[string]any{"bridge.enabled": true, "bridge.readOnly": true})
	w := d.open(t, workspace(t, files))
	c := w.ready(t)
	stop := make(chan struct{})
	defer close(stop)
	d.vendor.setScript(func(ctx context.Context, _ *vendorRequest, say func(part)) {
		say(part{Type: "text", Text: "one "})
		select { // blocks until the end
		case <-ctx.Done():
		case <-stop:
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := c.streams(ctx, t, chatRequest("gpt-test", "go on for ever"))
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
	waitUntil(t, "the list of servers", patience, func() (string, bool) {
		rows := w.eval(t, `[...document.querySelectorAll('.quick-input-widget .monaco-list-row')].map((r) => r.innerText).join('\n')`)
		return fmt.Sprintf("%q", rows), strings.Contains(rows, "Copilot Bridge")
	})
	w.savePicture(t, "mcp")
	if status, _ := c.ask(t, http.MethodGet, "/mcp", nil); status == http.StatusNotFound {
		t.Error("there is nothing at /mcp")
	}
}

// kill crashes the tab, so that nothing in it can clean up.
func (w *window) kill(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	// Page.crash crashes the page; the call itself never returns.
	_, err := chromedp.Run(ctx, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, page.Crash, cdp.Empty{})
		return err
	}))
	t.Logf("the tab: %v", err)
}
