//go:build unix

package acp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// message is a line of a transcript, or of the wire.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

type line struct {
	Dir string  `json:"dir"`
	Msg message `json:"msg"`
}

func transcript(t *testing.T, file string) []line {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []line
	for raw := range bytes.Lines(b) {
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// player answers a client with the agent's part of a transcript: each request
// of the client's with the recorded messages that followed the next one of that method.
type player struct {
	lines   []line
	next    int
	answers []json.RawMessage // of the client's, to permission requests
	played  []json.RawMessage // updates
}

func (p *player) serve(conn net.Conn) error {
	in := bufio.NewReader(conn)
	read := func() (message, error) {
		raw, err := in.ReadBytes('\n')
		if err != nil {
			return message{}, err
		}
		var m message
		return m, json.Unmarshal(raw, &m)
	}
	write := func(m message) error {
		b, err := json.Marshal(struct {
			V string `json:"jsonrpc"`
			message
		}{"2.0", m})
		if err != nil {
			return err
		}
		_, err = conn.Write(append(b, '\n'))
		return err
	}
	for {
		req, err := read()
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return nil // the client has gone
		}
		if err != nil {
			return err
		}
		if len(req.ID) == 0 {
			continue
		}
		at := p.next
		for at < len(p.lines) && (p.lines[at].Dir != "client->agent" || p.lines[at].Msg.Method != req.Method) {
			at++
		}
		if at == len(p.lines) {
			if err := write(message{ID: req.ID, Error: json.RawMessage(`{"code":-32601,"message":"not in the transcript"}`)}); err != nil {
				return err
			}
			continue
		}
		id := p.lines[at].Msg.ID
		for at++; at < len(p.lines); at++ {
			l := p.lines[at]
			if l.Dir == "client->agent" {
				// Its answer to a permission request, or its cancel.
				m, err := read()
				if err != nil {
					return err
				}
				if m.Method == "" {
					p.answers = append(p.answers, m.Result)
				}
				continue
			}
			m := l.Msg
			if m.Method == "session/update" {
				p.played = append(p.played, m.Params)
			}
			last := m.Method == "" && bytes.Equal(m.ID, id)
			if last {
				m.ID = req.ID
			}
			if err := write(m); err != nil {
				return err
			}
			if last {
				break
			}
		}
		p.next = at + 1
	}
}

// play connects an agent to a transcript.
func play(t *testing.T, lines []line) (*acp.Agent, *player) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &player{lines: lines}
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if err := p.serve(conn); err != nil {
			t.Errorf("the player: %v", err)
		}
		_ = conn.Close()
	})
	a := acp.New(acp.Options{Address: l.Addr().String(), Copilot: true, Records: t.TempDir(), Self: self(t)})
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		_ = l.Close()
		wg.Wait()
	})
	return a, p
}

func transcripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts of our own: %v", err)
	}
	recorded, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "data", "acp", "copilot-transcripts", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return append(files, recorded...)
}

// TestReplay plays recorded sessions and finds every update again in the
// events: as words, as a tool call, or as it came.
func TestReplay(t *testing.T) {
	for _, file := range transcripts(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), agenttest.Patience)
			defer cancel()
			a, p := play(t, transcript(t, file))
			g := agenttest.AllowAll()
			if strings.Contains(file, "reject") {
				g.PermitFunc = func(bridge.PermissionRequest) bridge.Decision { return bridge.Decision{Reason: "no"} }
			}
			s, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir(), Gate: g})
			if err != nil {
				t.Fatal(err)
			}
			before := len(p.played)
			var o agenttest.Outcome
			stop := strings.Contains(file, "cancel")
			for ev, err := range s.Send(ctx, bridge.Prompt{Text: "do it"}) {
				if err != nil {
					o.Err = err
					continue
				}
				o.Events = append(o.Events, ev)
				if d, ok := ev.(bridge.TextDelta); ok && stop && strings.HasPrefix(d.Text, "tok14") {
					if err := s.Abort(ctx); err != nil {
						t.Error(err)
					}
				}
			}
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			end := agenttest.Find[bridge.TurnEnded](o)
			if len(end) != 1 || (end[0].Reason == bridge.EndAborted) != stop {
				t.Errorf("ended with %+v", end)
			}
			if n := missing(t, o, p.played[before:]); n > 0 {
				t.Errorf("%d updates of %d are lost", n, len(p.played)-before)
			}
			for _, answer := range p.answers {
				want := `{"outcome":{"outcome":"selected","optionId":"allow_once"}}`
				if strings.Contains(file, "reject") {
					want = `{"outcome":{"outcome":"selected","optionId":"reject_once"}}`
				}
				if string(answer) != want {
					t.Errorf("a permission request was answered with %s", answer)
				}
			}
			if strings.Contains(file, "bash") && len(p.answers) != 1 {
				t.Errorf("%d permission requests were answered", len(p.answers))
			}
			if list, err := a.List(ctx); strings.Contains(file, "list") && (err != nil || len(list) != 1) {
				t.Errorf("list: %+v, %v", list, err)
			}
		})
	}
}

// missing counts the updates that no event carries.
func missing(t *testing.T, o agenttest.Outcome, played []json.RawMessage) int {
	t.Helper()
	words := o.Deltas()
	for _, n := range agenttest.Find[bridge.Notice](o) {
		words += "Info: " + n.Text
	}
	var others []any
	for _, e := range agenttest.Find[bridge.Other](o) {
		b, err := json.Marshal(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		others = append(others, v)
	}
	progress := ""
	for _, e := range agenttest.Find[bridge.ToolProgress](o) {
		progress += e.Text
	}
	lost := 0
	for _, raw := range played {
		var n struct {
			Update map[string]any `json:"update"`
		}
		if err := json.Unmarshal(raw, &n); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, v := range others {
			found = found || reflect.DeepEqual(v, any(n.Update))
		}
		switch n.Update["sessionUpdate"] {
		case "agent_message_chunk", "agent_thought_chunk":
			content, _ := n.Update["content"].(map[string]any)
			found = found || strings.Contains(words, fmt.Sprint(content["text"]))
		case "plan":
			found = len(agenttest.Find[bridge.PlanChanged](o)) > 0
		case "tool_call_update":
			found = found || n.Update["status"] == nil && progress != ""
		}
		if !found {
			lost++
			t.Logf("lost: %.300s", raw)
		}
	}
	return lost
}
