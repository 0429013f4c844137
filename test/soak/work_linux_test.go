package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent has serve's agent create a file, with a tool or a command.
func (w *world) agent(ctx context.Context, rng *rand.Rand) error {
	word := fmt.Sprintf("agent-%d", rng.Int64())
	prompt := toolPrompt(rng, word, "create", object{"path": filepath.Join(w.dir, "made", word), "file_text": word + "\n"})
	if rng.IntN(2) == 0 {
		word = "by-command-" + word
		prompt = toolPrompt(rng, word, "bash", object{"command": "mkdir -p made && echo " + word + " > made/" + word, "description": "make a file"})
	}
	if err := w.ask(ctx, apis[rng.IntN(len(apis))], "agent/"+modelName, prompt, word, rng.IntN(2) == 0); err != nil {
		return err
	}
	return w.checkMade(word)
}

// checkMade checks and removes a file that an agent reports to have created.
func (w *world) checkMade(word string) error {
	path := filepath.Join(w.dir, "made", word)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if string(data) != word+"\n" {
		return fmt.Errorf("%s is %q", word, data)
	}
	return os.Remove(path)
}

// person edits and commits its own files, which no other actor may change.
func (w *world) person() func(context.Context, *rand.Rand) error {
	mine := map[string]string{}
	// If the disk becomes read-only, git cannot remove its lock file. Only then
	// may the person remove it.
	locked := false
	git := func(args ...string) error {
		if locked {
			if err := os.Remove(filepath.Join(w.dir, ".git", "index.lock")); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		_, err := w.git(args...)
		locked = err != nil
		return err
	}
	return func(_ context.Context, rng *rand.Rand) error {
		for name, want := range mine {
			got, err := os.ReadFile(filepath.Join(w.dir, name))
			if err != nil {
				return fmt.Errorf("%w: %w", errBroken, err)
			}
			if string(got) != want {
				return fmt.Errorf("%w: %s has %.200q instead of %q", errBroken, name, got, want)
			}
		}
		name, text := fmt.Sprintf("person-%d.txt", rng.IntN(10)), fmt.Sprintf("mine %d\n", rng.Int64())
		path := filepath.Join(w.dir, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			return err // the disk is full or read-only
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
		mine[name] = text
		if rng.IntN(2) == 0 {
			return errors.Join(git("add", name), git("commit", "-q", "-m", "mine", "--", name))
		}
		return nil
	}
}

// patcher changes several files with one patch; no other actor touches them.
// Either all of them change or none, whatever happens.
func (w *world) patcher(who int) func(context.Context, *rand.Rand) error {
	const files = 20
	name := func(i int) string { return fmt.Sprintf("patched-%d/%02d.txt", who, i) }
	versions := []string{""} // possible contents of the files; "" if they do not exist
	return func(ctx context.Context, rng *rand.Rand) error {
		present := make([]string, files)
		for i := range present {
			data, err := os.ReadFile(filepath.Join(w.dir, name(i)))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			present[i] = string(data)
		}
		torn := false
		for _, text := range present {
			torn = torn || text != present[0]
		}
		if torn && len(versions) == 1 {
			return fmt.Errorf("%w: patched-%d is %q", errBroken, who, present)
		}
		if torn { // the patch was interrupted; the next start of the bridge undoes it
			if err := w.rpc(ctx, "mcp.fs.list", object{"path": "."}, &struct{}{}); err != nil {
				return err
			}
			return fmt.Errorf("%w: patched-%d is half done while the bridge answers: %q", errBroken, who, present)
		}
		old, known := present[0], false
		for _, v := range versions {
			known = known || v == old
		}
		if !known {
			return fmt.Errorf("%w: patched-%d is %q, which is none of %q", errBroken, who, old, versions)
		}
		text := fmt.Sprintf("version %d\n", rng.Int64())
		var diff strings.Builder
		for i := range files {
			if old == "" {
				fmt.Fprintf(&diff, "--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+%s", name(i), text)
			} else {
				fmt.Fprintf(&diff, "--- a/%[1]s\n+++ b/%[1]s\n@@ -1 +1 @@\n-%s+%s", name(i), old, text)
			}
		}
		versions = []string{old, text}
		var result struct {
			OK        bool
			Conflicts json.RawMessage
		}
		if err := w.rpc(ctx, "mcp.edit.applyPatch", object{"unifiedDiff": diff.String()}, &result); err != nil {
			return err
		}
		if !result.OK {
			return fmt.Errorf("the patch did not fit: %s", result.Conflicts)
		}
		versions = []string{text}
		return nil
	}
}

// oneShot runs a command that does one task and exits, or is killed.
func (w *world) oneShot(args ...string) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		word := fmt.Sprintf("shot-%d", rng.Int64())
		prompt := toolPrompt(rng, word, "create", object{"path": filepath.Join(w.dir, "made", word), "file_text": word + "\n"})
		cmd := w.command(ctx, append(args, prompt)...)
		out, killed, err := runOrKill(cmd, rng, "")
		if killed {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %.2000s", err, out)
		}
		return w.checkMade(word)
	}
}

// runOrKill runs a command and kills one in four at a random time.
func runOrKill(cmd *exec.Cmd, rng *rand.Rand, input string) (out string, killed bool, err error) {
	var all output
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &all, &all
	if err := cmd.Start(); err != nil {
		return "", false, err
	}
	if rng.IntN(4) == 0 {
		timer := time.AfterFunc(time.Duration(rng.IntN(4000))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	err = cmd.Wait()
	return all.String(), cmd.ProcessState.ExitCode() == -1, err
}

// abp is a host that sends one work order.
func (w *world) abp(ctx context.Context, rng *rand.Rand) error {
	word := fmt.Sprintf("order-%d", rng.Int64())
	order, err := json.Marshal(object{"t": "run", "id": "r-1", "work_order": object{"id": "11111111-2222-4333-8444-555555555555",
		"task": toolPrompt(rng, word, "create", object{"path": filepath.Join(w.dir, "made", word), "file_text": word + "\n"}), "workspace": object{"root": ".", "mode": "pass_through"}, "lane": "workspace_first"}})
	if err != nil {
		return err
	}
	out, killed, err := runOrKill(w.command(ctx, "abp"), rng, string(order)+"\n")
	if killed {
		return nil
	}
	if err != nil || !strings.Contains(out, `"t":"final"`) {
		return fmt.Errorf("%w: %.3000s", err, out)
	}
	return w.checkMade(word)
}

// mcpTasks is a client of `mcp copilot` that sends a few tasks.
func (w *world) mcpTasks(ctx context.Context, rng *rand.Rand) error {
	var stderr output
	cmd := w.command(context.WithoutCancel(ctx), "mcp", "copilot")
	cmd.Stderr = &stderr
	c, err := mcp.NewClient(&mcp.Implementation{Name: "soak", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return fmt.Errorf("%w: %.1000s", err, stderr.String())
	}
	for range 1 + rng.IntN(4) {
		word := fmt.Sprintf("task-%d", rng.Int64())
		r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "copilot_code_task", Arguments: object{
			"prompt": toolPrompt(rng, word, "create", object{"path": filepath.Join(w.dir, "made", word), "file_text": word + "\n"})}})
		if err == nil && r.IsError {
			text, _ := json.Marshal(r.Content)
			err = fmt.Errorf("%s", text)
		}
		if err == nil {
			err = w.checkMade(word)
		}
		if err != nil {
			_ = cmd.Process.Kill()
			_ = c.Close() // it was killed
			return err
		}
	}
	if rng.IntN(3) == 0 {
		_ = cmd.Process.Kill()
		_ = c.Close() // it was killed
		return nil
	}
	return c.Close()
}

// acp is an editor with one session that sends a task, cancels it, or is
// killed.
func (w *world) acp(ctx context.Context, rng *rand.Rand) (err error) {
	cmd := w.command(ctx, "acp")
	var stderr output
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		if err != nil || rng.IntN(3) == 0 {
			_ = cmd.Process.Kill()
		}
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if ended := cmd.Wait(); err == nil && ended != nil && cmd.ProcessState.ExitCode() != -1 {
			err = fmt.Errorf("%w: %.1000s", ended, stderr.String())
		}
	}()
	lines := bufio.NewReader(out)
	call := func(id int, method string, params any, result any) error {
		data, err := json.Marshal(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
		if err != nil {
			return err
		}
		if _, err := in.Write(append(data, '\n')); err != nil {
			return err
		}
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return fmt.Errorf("%s: %w: %.1000s", method, err, stderr.String())
			}
			var m struct {
				ID            int
				Method        string
				Result, Error json.RawMessage
			}
			if err := json.Unmarshal(line, &m); err != nil {
				return fmt.Errorf("%w: %q is no message: %w", errBroken, line, err)
			}
			if m.ID != id || m.Method != "" {
				continue // a notification, or a request that stays unanswered
			}
			if m.Error != nil {
				return fmt.Errorf("%s: %s", method, m.Error)
			}
			return json.Unmarshal(m.Result, result)
		}
	}
	var session struct{ SessionID string }
	word := fmt.Sprintf("edit-%d", rng.Int64())
	var end struct{ StopReason string }
	if err := errors.Join(call(1, "initialize", object{"protocolVersion": 1}, &struct{}{}),
		call(2, "session/new", object{"cwd": w.dir, "mcpServers": []any{}}, &session)); err != nil {
		return err
	}
	if rng.IntN(3) == 0 { // cancel the task
		cancel, err := json.Marshal(object{"jsonrpc": "2.0", "method": "session/cancel", "params": object{"sessionId": session.SessionID}})
		if err != nil {
			return err
		}
		timer := time.AfterFunc(time.Duration(rng.IntN(1500))*time.Millisecond, func() { _, _ = in.Write(append(cancel, '\n')) })
		defer timer.Stop()
		return call(3, "session/prompt", object{"sessionId": session.SessionID, "prompt": []object{{"type": "text", "text": slowPrompt(rng, word)}}}, &end)
	}
	prompt := toolPrompt(rng, word, "create", object{"path": filepath.Join(w.dir, "made", word), "file_text": word + "\n"})
	if err := call(3, "session/prompt", object{"sessionId": session.SessionID, "prompt": []object{{"type": "text", "text": prompt}}}, &end); err != nil {
		return err
	}
	if end.StopReason != "end_turn" {
		return fmt.Errorf("ended with %q", end.StopReason)
	}
	return w.checkMade(word)
}

// orchestrate runs a plan of three parts, sometimes killed and resumed, until
// it is done.
func (w *world) orchestrate(ctx context.Context, rng *rand.Rand) error {
	word := fmt.Sprintf("plan-%d", rng.Int64())
	part := func(id string) object {
		data, _ := json.Marshal(object{"path": "made/" + word + "-" + id, "file_text": id + "\n"})
		return object{"id": id, "description": fmt.Sprintf("rehearsal: delay %dms\nrehearsal: tool create %s\nrehearsal: next\nrehearsal: text made it", 100+rng.IntN(1000), data), "estimatedComplexity": "S"}
	}
	plan, err := json.Marshal(object{"tasks": []object{part("one"), part("two"), part("three")}, "dependencies": []object{{"task": "three", "dependsOn": []string{"one", "two"}}}})
	if err != nil {
		return err
	}
	out, killed, err := runOrKill(w.command(ctx, "orchestrate", "--json", "--plan", "-", word), rng, string(plan))
	for tries := 0; killed && tries < 5; tries++ {
		// A run that was killed before its journal was created has done
		// nothing.
		list, failed := w.command(ctx, "orchestrate", "--list", "--json").Output()
		if failed != nil {
			out, killed, err = string(list), false, failed
			break
		}
		if !strings.Contains(string(list), word) {
			return nil
		}
		out, killed, err = runOrKill(w.command(ctx, "orchestrate", "--json", "--resume", "last"), rng, "")
	}
	if killed {
		out, _, err = runOrKill(w.command(ctx, "orchestrate", "--json", "--resume", "last"), rand.New(rand.NewPCG(0, 2)), "")
	}
	if err != nil { // its leftovers are removed as soon as discarding works
		for ctx.Err() == nil {
			discardOut, failed := w.command(ctx, "orchestrate", "--discard", "all", "--yes").CombinedOutput()
			if failed == nil {
				break
			}
			err = fmt.Errorf("%w; discarding: %w: %.1000s", err, failed, discardOut)
			pause()
		}
		return fmt.Errorf("%w: %.3000s", err, out[max(0, len(out)-3000):])
	}
	for _, id := range []string{"one", "two", "three"} {
		path := filepath.Join(w.dir, "made", word+"-"+id)
		if data, err := os.ReadFile(path); err != nil || string(data) != id+"\n" {
			return fmt.Errorf("part %s: %q, %w", id, data, err)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
