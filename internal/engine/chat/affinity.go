package chat

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// digest names a shape, or a conversation of a shape up to some message.
type digest [sha256.Size]byte

// digestOf hashes texts, each with its length, so that no two different lists
// give the same bytes.
func digestOf(parts ...string) digest {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p) // a hash never fails
	}
	return digest(h.Sum(nil))
}

// jsonText is a value as JSON with sorted keys.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%#v", v) // it was not made of JSON
	}
	return string(b)
}

// arguments normalises those of a tool call: clients send them back as JSON
// text or as values, and have several forms of "none".
func arguments(v any) any {
	switch x := v.(type) {
	case nil:
		return map[string]any{}
	case string:
		if strings.TrimSpace(x) == "" {
			return map[string]any{}
		}
		var out any
		if json.Unmarshal([]byte(x), &out) == nil && out != nil {
			return out
		}
	case json.RawMessage:
		return arguments(string(x))
	}
	return v
}

// chain is a conversation as a rolling digest: two are the same exactly if
// they have the same shape and the same content in the same order. Consecutive
// messages of the assistant count as one, since some APIs take an answer
// apart into items.
//
// The arguments of tool calls are not part of sum: clients send them back
// with defaults filled in, blanks trimmed or commands shortened. They come from
// the model, and the tool's result does count. exact has the arguments too, to
// choose by where several conversations are the same.
type chain struct {
	sum   digest
	exact digest
	text  strings.Builder   // of the assistant; not yet part of them
	calls []bridge.ToolCall // as text
}

func newChain(shape digest) *chain { return &chain{sum: shape, exact: shape} }

// link appends one digest to another.
func link(to, next digest) digest {
	return sha256.Sum256(append(to[:], next[:]...))
}

// add appends messages.
func (c *chain) add(messages ...bridge.Message) {
	for i := range messages {
		m := &messages[i]
		if m.Role == bridge.RoleAssistant {
			// APIs join the parts of an answer in their own ways, so white
			// space does not count here.
			for word := range strings.FieldsSeq(m.Text) {
				c.text.WriteString(word)
			}
			c.calls = append(c.calls, m.Calls...)
			continue
		}
		c.flush()
		parts := []string{string(m.Role), strings.TrimSpace(m.Text), m.CallID, fmt.Sprint(m.Failed)}
		for _, a := range m.Attachments {
			parts = append(parts, a.Path, a.MIME, string(a.Data))
		}
		d := digestOf(parts...)
		c.sum, c.exact = link(c.sum, d), link(c.exact, d)
	}
}

// flush makes the assistant's last messages part of the digests.
func (c *chain) flush() {
	if c.text.Len() == 0 && len(c.calls) == 0 {
		return
	}
	parts := []string{string(bridge.RoleAssistant), c.text.String()}
	var args []string
	for _, call := range c.calls {
		parts = append(parts, call.ID, call.Name)
		args = append(args, jsonText(arguments(call.Args)))
	}
	d := digestOf(parts...)
	c.sum, c.exact = link(c.sum, d), link(link(c.exact, d), digestOf(args...))
	c.text.Reset()
	c.calls = nil
}

// key is the digest of all that was added, and the exact one.
func (c *chain) key() (sum, exact digest) {
	c.flush()
	return c.sum, c.exact
}

// split divides a conversation after the last message of the assistant: a
// session may know the first part, and the second is new.
func split(messages []bridge.Message) (known, fresh []bridge.Message) {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == bridge.RoleAssistant {
			return messages[:i+1], messages[i+1:]
		}
	}
	return nil, messages
}
