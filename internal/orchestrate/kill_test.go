package orchestrate

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test binary runs itself again as the process that is killed.
const (
	victimHome   = "ORCHESTRATE_TEST_HOME"
	victimDir    = "ORCHESTRATE_TEST_DIR"
	victimLog    = "ORCHESTRATE_TEST_LOG"
	victimResume = "ORCHESTRATE_TEST_RESUME"
)

// victim begins or resumes a run, until it is done or killed.
func victim() error {
	p := diamond()
	o := Options{Home: os.Getenv(victimHome), Dir: os.Getenv(victimDir), Task: "the whole", Plan: &p, Environ: os.Environ(), Open: workers(os.Getenv(victimLog), "")}
	var r Result
	var err error
	if id := os.Getenv(victimResume); id != "" {
		r, err = Resume(context.Background(), id, o)
	} else {
		r, err = Run(context.Background(), o)
	}
	if err == nil && !r.Success {
		err = fmt.Errorf("%s", r.Summary)
	}
	return err
}

// strike starts the victim and kills it after a while, unless it is done
// before. It returns what the victim said and whether it was killed.
func (y *yard) strike(resume string, after time.Duration) (string, bool) {
	y.t.Helper()
	self, err := os.Executable()
	if err != nil {
		y.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), victimHome+"="+y.home, victimDir+"="+y.dir, victimLog+"="+y.log, victimResume+"="+resume)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second // git may hold the pipes a little longer
	if err := cmd.Start(); err != nil {
		y.t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err = cmd.Wait()
	killed := cmd.ProcessState.ExitCode() == -1
	if err != nil && !killed {
		y.t.Errorf("the run failed by itself: %v\n%s", err, out.String())
	}
	return out.String(), killed
}

// finished lists the tasks that a journal knows to be done.
func (y *yard) finished(run string) []string {
	y.t.Helper()
	data, err := os.ReadFile(filepath.Join(RunsDir(y.home), run, "events.jsonl"))
	if err != nil {
		return nil
	}
	r, _, err := replayEvents(data)
	if err != nil {
		y.t.Fatal(err)
	}
	var out []string
	for id := range r.done {
		out = append(out, id)
	}
	return out
}

// TestKill kills runs at random points, some of them again while they are
// resumed, and sees them to their end: the tree is right, what was finished is
// not repeated, what the user had is there, and nothing is left.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := 10
	if os.Getenv("COPILOT_BRIDGE_TEST_LONG") != "" {
		kills = 50
	}
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	trial := newYard(t)
	began := time.Now()
	if _, killed := trial.strike("", time.Minute); killed {
		t.Fatal("a run takes more than a minute")
	}
	whole := time.Since(began)
	done, runs, where := 0, 0, map[EventType]int{}
	for done < kills {
		runs++
		if runs > 4*kills {
			t.Fatalf("only %d runs could be hit", done)
		}
		y := newYard(t)
		y.write("README.md", "hello\nmine\n")
		y.write("notes.txt", "mine\n")
		resume, last := "", false
		for {
			var before []string
			if resume != "" {
				before = y.finished(resume)
			}
			if err := os.WriteFile(y.log, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			after := time.Duration(rng.Int64N(int64(whole)))
			if last {
				after = time.Minute
			}
			_, killed := y.strike(resume, after)
			log, err := os.ReadFile(y.log)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range before {
				if strings.Contains("\n"+string(log), "\n"+id+"\n") {
					t.Errorf("%s was finished and done again", id)
				}
			}
			if !killed {
				break
			}
			done++
			last = rng.IntN(3) > 0 // a third of them are killed again
			if meta, err := FindRun(y.home, "last"); err == nil {
				resume = meta.ID
				where[y.lastEvent(resume)]++
			}
		}
		want := diamondTree()
		want["README.md"], want["notes.txt"] = "hello\nmine\n", "mine\n"
		y.expect(want)
		if names := y.git("status", "--porcelain", "--untracked-files=all"); strings.Contains(names, "copilot-bridge") || strings.Count(names, "\n") != 5 {
			t.Errorf("files are left or missing:\n%s", names)
		}
		y.clean()
		if t.Failed() {
			t.Fatalf("run %d, after %d kills", runs, done)
		}
	}
	t.Logf("%d kills in %d runs of %s each; the last thing on record was %v", done, runs, whole.Round(time.Millisecond), where)
}

func (y *yard) lastEvent(run string) EventType {
	data, err := os.ReadFile(filepath.Join(RunsDir(y.home), run, "events.jsonl"))
	if err != nil {
		return "nothing"
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	_, rest, _ := strings.Cut(lines[len(lines)-1], `"type":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return EventType(name)
}
