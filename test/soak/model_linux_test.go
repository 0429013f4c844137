package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

// modelVariable makes the test binary run as the model. The model needs its own
// process, because the bridge treats processes connected to a server in its
// parent as its callers.
const modelVariable = "COPILOT_BRIDGE_SOAK_MODEL"

// faultyReplies are the answers of a broken provider.
var faultyReplies = []demomodel.Reply{
	{demomodel.Status(500, "broken")}, {demomodel.Status(503, "overloaded")}, {demomodel.RateLimit(2 * time.Second)}, {demomodel.Status(401, "who are you?")},
	{demomodel.Text("half"), demomodel.Cut()}, {demomodel.Malformed("no json")}, {demomodel.Text("half"), demomodel.Delay(3 * time.Second), demomodel.Cut()},
}

// model is the process with the model provider.
type model struct {
	URL, Key string
	in       io.Writer
}

func startModel(t *testing.T) *model {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), modelVariable+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("the model: %v", err)
		}
	})
	m := &model{in: in}
	if err := json.NewDecoder(out).Decode(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// fault makes the provider answer with one of faultyReplies, or normally.
func (m *model) fault(n int) error {
	_, err := fmt.Fprintln(m.in, n)
	return err
}

// runModel serves until standard input is closed.
func runModel() error {
	var faulty atomic.Pointer[demomodel.Reply]
	m := demomodel.New(demomodel.WithJournal(0))
	m.Handle(func(demomodel.Request) (demomodel.Reply, bool) {
		if r := faulty.Load(); r != nil {
			return *r, true
		}
		return nil, false // use the directives in the prompt
	})
	if err := m.Start(context.Background()); err != nil {
		return err
	}
	err := json.NewEncoder(os.Stdout).Encode(model{URL: m.URL(), Key: m.Key()})
	for lines := bufio.NewScanner(os.Stdin); err == nil && lines.Scan(); {
		var n int
		if n, err = strconv.Atoi(lines.Text()); n >= 0 && n < len(faultyReplies) {
			faulty.Store(&faultyReplies[n])
		} else {
			faulty.Store(nil)
		}
	}
	return errors.Join(err, m.Close())
}
