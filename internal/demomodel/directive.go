package demomodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

const (
	directivePrefix = "rehearsal:"
	maxDirectives   = 1000
	maxDelay        = 10 * time.Minute
	maxRetryAfter   = time.Hour
)

// script is what the directives of one message ask for: parts by request of
// the turn, each divided by attempts. No part and no division is ever absent.
type script struct {
	parts [][]Reply
}

// parseScript reads the directives of a message. found is false if there are
// none; an error names the line that cannot be read.
//
// A line that begins with "rehearsal:" is a directive; other lines beside
// directives are ignored. One directive is one step of the reply, in order:
//
//	rehearsal: text WORDS              text, streamed word by word
//	rehearsal: chunks A|B|C            text, streamed in these chunks
//	rehearsal: reason WORDS            reasoning text
//	rehearsal: delay 50ms              a pause, at most 10m
//	rehearsal: tool NAME {JSON}        a tool call; several are parallel calls
//	rehearsal: usage IN OUT [CACHED [REASONING]]
//	rehearsal: finish REASON           finish_reason, such as length
//	rehearsal: status CODE [MESSAGE]   an HTTP error, 400 to 599
//	rehearsal: ratelimit 2s            HTTP 429 with Retry-After
//	rehearsal: cut                     the connection is cut here
//	rehearsal: silence                 nothing more is sent, ever
//	rehearsal: malformed RAW           RAW goes into the body as it is
//	rehearsal: next                    what follows answers the next request
//	rehearsal: once                    what follows answers the next attempt
//
// In text, chunks, reason and malformed, \n, \r, \t and \\ are escapes, and \|
// is a bar inside a chunk.
//
// "next" divides a turn: the part before it answers the user's message, the
// part after it the request that brings the tool results, and so on. Which part
// applies is the number of assistant messages after the last user message. Past
// the last part the reply says that the script has ended and what the tools
// answered.
//
// "once" divides a part by attempts: the steps before it answer a request the
// first time, the steps after it answer the same bytes when they come again.
// The last division answers all further attempts.
func parseScript(message string) (sc script, found bool, err error) {
	if !strings.Contains(message, directivePrefix) {
		return script{}, false, nil
	}
	sc.parts = [][]Reply{{nil}}
	count, number := 0, 0
	for line := range strings.SplitSeq(message, "\n") {
		number++
		rest, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), directivePrefix)
		if !ok {
			continue
		}
		if count++; count > maxDirectives {
			return script{}, true, fmt.Errorf("bad rehearsal script: more than %d directives", maxDirectives)
		}
		if err := sc.add(rest); err != nil {
			return script{}, true, fmt.Errorf("bad rehearsal directive on line %d: %q: %w", number, text.Clip(strings.TrimSpace(line), 200), err)
		}
	}
	return sc, count > 0, nil
}

func (sc *script) add(directive string) error {
	verb, arg, _ := strings.Cut(strings.TrimRight(strings.TrimLeft(directive, " \t"), "\r"), " ")
	part := &sc.parts[len(sc.parts)-1]
	switch verb {
	case "next":
		sc.parts = append(sc.parts, []Reply{nil})
		return noArgument(arg)
	case "once":
		*part = append(*part, nil)
		return noArgument(arg)
	}
	step, err := parseStep(verb, arg)
	if err != nil {
		return err
	}
	reply := &(*part)[len(*part)-1]
	*reply = append(*reply, step)
	return nil
}

func parseStep(verb, arg string) (Step, error) {
	trimmed := strings.TrimSpace(arg)
	switch verb {
	case "text":
		return Text(unescape(arg)), nil
	case "reason":
		return Reasoning(unescape(arg)), nil
	case "chunks":
		return Chunks(splitChunks(arg)...), nil
	case "malformed":
		return Malformed(unescape(arg)), nil
	case "delay":
		d, err := duration(trimmed, maxDelay)
		return Delay(d), err
	case "ratelimit":
		d, err := duration(trimmed, maxRetryAfter)
		return RateLimit(d), err
	case "tool":
		return parseTool(trimmed)
	case "status":
		return parseStatus(trimmed)
	case "usage":
		return parseUsage(trimmed)
	case "finish":
		if trimmed == "" {
			return nil, errors.New("a reason is missing, such as length")
		}
		return Finish(trimmed), nil
	case "cut":
		return Cut(), noArgument(arg)
	case "silence":
		return Silence(), noArgument(arg)
	case "":
		return nil, errors.New("there is no directive after the colon")
	}
	return nil, fmt.Errorf("no such directive as %q", text.Clip(verb, 40))
}

func noArgument(arg string) error {
	if strings.TrimSpace(arg) != "" {
		return errors.New("this directive takes nothing after its name")
	}
	return nil
}

func duration(arg string, limit time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(arg)
	if err != nil || d < 0 || d > limit {
		return 0, fmt.Errorf("want a duration from 0s to %s, such as 50ms", limit)
	}
	return d, nil
}

func parseTool(arg string) (Step, error) {
	name, args, _ := strings.Cut(arg, " ")
	args = strings.TrimSpace(args)
	if name == "" {
		return nil, errors.New("the name of the tool is missing")
	}
	if args == "" {
		return ToolCall(name, nil), nil
	}
	if args[0] != '{' || !json.Valid([]byte(args)) {
		return nil, errors.New("the arguments are not a JSON object")
	}
	return ToolCall(name, args), nil
}

func parseStatus(arg string) (Step, error) {
	code, message, _ := strings.Cut(arg, " ")
	n, err := strconv.Atoi(code)
	if err != nil || n < 400 || n > 599 {
		return nil, errors.New("want an HTTP status from 400 to 599")
	}
	return Status(n, strings.TrimSpace(message)), nil
}

func parseUsage(arg string) (Step, error) {
	fields := strings.Fields(arg)
	if len(fields) < 2 || len(fields) > 4 {
		return nil, errors.New("want 2 to 4 token counts")
	}
	var n [4]int
	for i, f := range fields {
		v, err := strconv.ParseUint(f, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is not a token count", text.Clip(f, 40))
		}
		n[i] = int(v)
	}
	return Usage(n[0], n[1], n[2], n[3]), nil
}

var escapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\\`, `\`, `\|`, "|")

func unescape(s string) string { return escapes.Replace(s) }

// splitChunks cuts at bars that no backslash protects.
func splitChunks(s string) []string {
	var chunks []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '|':
			chunks = append(chunks, unescape(s[start:i]))
			start = i + 1
		}
	}
	return append(chunks, unescape(s[start:]))
}

// reply picks what answers this request. attempt counts it, and is called
// only where the count matters.
func (sc *script) reply(t *turn, attempt func() int) Reply {
	if len(t.rounds) >= len(sc.parts) {
		return Reply{Text(scriptEnd(t))}
	}
	part := sc.parts[len(t.rounds)]
	if len(part) == 1 {
		return part[0]
	}
	return part[min(attempt(), len(part)-1)]
}

// scriptEnd answers a request that the script does not foresee. It never
// calls a tool, so a turn always ends.
func scriptEnd(t *turn) string {
	var b strings.Builder
	b.WriteString("The rehearsal script has ended.")
	last := t.rounds[len(t.rounds)-1]
	for i, result := range last.results {
		fmt.Fprintf(&b, "\n%s answered: %s", last.calls[i].Name, text.Clip(result, 2000))
	}
	return b.String()
}
