package demomodel

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// move is what the model does next about a task: it calls tools, or it is
// done and has something to say.
type move struct {
	calls  []callStep
	say    string
	failed bool
}

// answer is the reply of last resort: it acts on the simple requests of the
// user's message, one after the other, and says what came of them. What has
// been done already is read from the turn's rounds, which replay the moves
// that led here.
func answer(req *Request, t *turn) Reply {
	box := newToolbox(req)
	// Planning happens with tools that may be fewer than the parts will have.
	if plan, ok := planned(t.user); ok {
		return plan
	}
	t.user = ownPart(t.user)
	tasks, all := readTasks(t.user)
	if len(tasks) == 0 {
		return unasked(req, t, box)
	}
	var said []string
	rounds := t.rounds
	for i := range tasks {
		used := 0
		var m move
		for {
			if m = tasks[i].next(box, rounds[:used]); len(m.calls) == 0 {
				break
			}
			if used == len(rounds) {
				reply := make(Reply, len(m.calls))
				for j := range m.calls {
					reply[j] = m.calls[j]
				}
				return reply
			}
			used++
		}
		rounds = rounds[used:]
		said = append(said, m.say)
		if m.failed && i+1 < len(tasks) {
			said = append(said, "I stopped there and did not "+tasks[i+1].do+".")
		}
		if m.failed {
			break
		}
	}
	if !all {
		said = append(said, "The rest of your message was beyond me.")
	}
	return final(req, strings.Join(said, "\n"))
}

// unasked answers a message that asks for nothing this model can do.
func unasked(req *Request, t *turn, box *toolbox) Reply {
	forced := box.named(req.ToolChoice)
	if req.ToolChoice == "required" && len(box.tools) > 0 {
		forced = &box.tools[0]
	}
	switch {
	case forced != nil && forced.Name != "" && len(t.rounds) == 0:
		return Reply{callStep{name: forced.Name, args: string(encoded(forced.required()))}}
	case len(t.rounds) > 0:
		last := t.rounds[len(t.rounds)-1]
		if len(last.results) > 0 {
			return final(req, "The tool answered:\n"+fenced(strings.Join(last.results, "\n")))
		}
	}
	said := "You said: " + text.Clip(t.user, 4000)
	if t.user == "" {
		said = "You said nothing."
	}
	if len(box.tools) > 0 {
		said += "\nI can act on simple requests, such as: create hello.txt saying hi; list the files; run ls."
	}
	return final(req, said)
}

// final is a reply in words, in the format that the request asks for.
func final(req *Request, said string) Reply {
	said += "\n\n" + signature
	switch req.Format.Type {
	case "json_schema":
		if b, err := json.Marshal(instance(req.Format.Schema)); err == nil {
			return Reply{Text(string(b))}
		}
	case "json_object":
		return Reply{Text(string(encoded(map[string]any{"message": said})))}
	}
	return Reply{Text(said)}
}

// outcome is what a tool's result says about the call.
type outcome int

const (
	succeeded outcome = iota
	failed
	denied
)

var (
	exitLine  = regexp.MustCompile(`\s*<(?:shellId: \S+ completed|command completed|exited) with exit code (-?\d+)>\s*$`)
	exitHead  = regexp.MustCompile(`^(?:.*\n){0,3}Process exited with code (-?\d+)\n(?:.*\n){0,2}?Output:\s*`) // Codex's
	denials   = regexp.MustCompile(`(?i)^(?:error: )?(?:the user rejected|denied by|permission (?:denied|to run)|the tool call was denied|user (?:denied|rejected)|this session is read-only)`)
	failures  = regexp.MustCompile(`(?i)^(?:invalid input:|tool '[^']*' does not exist|path \S.* (?:does not exist|already exists)|parent directory .* does not exist|no match found:|ambiguous match|multiple matches|.*: no such file or directory$)`)
	complaint = regexp.MustCompile(`(?i)^(?:error|failed)\b`)
	noParent  = regexp.MustCompile(`(?i)parent directory .*does not exist|no such file or directory`)
)

// judge reads a tool's result: how it went, and its text without the
// runtime's trailer. A result that only begins with "error" may be what a file
// or a search holds; report looks closer.
func judge(result string) (outcome, string) {
	text := strings.TrimSpace(result)
	first, _, _ := strings.Cut(text, "\n")
	for _, exit := range []*regexp.Regexp{exitLine, exitHead} {
		m := exit.FindStringSubmatchIndex(text)
		if m == nil {
			continue
		}
		code := text[m[2]:m[3]]
		text = strings.TrimSpace(text[:m[0]] + text[m[1]:])
		if code == "0" {
			return succeeded, text
		}
		return failed, strings.TrimSpace("exit code " + code + "\n" + text)
	}
	switch {
	case denials.MatchString(first):
		return denied, text
	case failures.MatchString(first):
		return failed, text
	}
	return succeeded, text
}
