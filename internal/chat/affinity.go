package chat

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// digest names a shape, or a conversation of a shape up to some message.
type digest [sha256.Size]byte

// digester writes values so that no two different ones look the same: every
// string goes with its length.
type digester struct {
	hash.Hash
	buf []byte
}

func newDigester() *digester { return &digester{Hash: sha256.New()} }

func (d *digester) tag(t byte, n int) {
	d.buf = binary.AppendUvarint(append(d.buf[:0], t), uint64(n))
	_, _ = d.Write(d.buf) // a hash never fails
}

func (d *digester) str(s string) {
	d.tag('s', len(s))
	d.buf = append(d.buf[:0], s...)
	_, _ = d.Write(d.buf)
}

// value writes decoded JSON with its keys in order. JSON in a string, raw
// JSON and numbers of any kind count as what they mean.
func (d *digester) value(v any) {
	switch x := v.(type) {
	case nil:
		d.tag('n', 0)
	case bool:
		n := 0
		if x {
			n = 1
		}
		d.tag('b', n)
	case string:
		d.str(x)
	case float64:
		d.tag('f', 0)
		d.buf = binary.BigEndian.AppendUint64(d.buf[:0], math.Float64bits(x))
		_, _ = d.Write(d.buf)
	case []any:
		d.tag('a', len(x))
		for _, e := range x {
			d.value(e)
		}
	case map[string]any:
		d.tag('o', len(x))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			d.str(k)
			d.value(x[k])
		}
	default:
		d.value(decoded(v))
	}
}

// decoded is v as encoding/json would have decoded it.
func decoded(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil
	}
	return out
}

// arguments normalises those of a tool call: clients send them back as JSON
// text or as values, and say "none" in several ways.
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

func (d *digester) sum() (out digest) {
	d.Sum(out[:0])
	return out
}

// chain is a conversation as a rolling digest: two are the same exactly if
// they have the same shape and said the same in the same order. Consecutive
// messages of the assistant count as one, since some APIs take an answer
// apart into items.
//
// The arguments of tool calls are not part of sum: clients send them back
// with defaults filled in, blanks trimmed or commands shortened. They are the
// model's words, and what came of them, the tool's result, does count. exact
// has them too, to choose by where several conversations are the same.
type chain struct {
	sum   digest
	exact digest
	said  assistantSaid // not yet part of them
}

type assistantSaid struct {
	text  strings.Builder
	calls []bridge.ToolCall
	any   bool
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
			// Doors join the parts of an answer in their own ways, so white
			// space does not count here.
			for word := range strings.FieldsSeq(m.Text) {
				c.said.text.WriteString(word)
				c.said.any = true
			}
			c.said.calls = append(c.said.calls, m.Calls...)
			c.said.any = c.said.any || len(m.Calls) > 0
			continue
		}
		c.flush()
		d := newDigester()
		d.str(string(m.Role))
		d.str(strings.TrimSpace(m.Text))
		d.str(m.CallID)
		d.value(m.Failed)
		d.tag('A', len(m.Attachments))
		for _, a := range m.Attachments {
			d.str(a.Path)
			d.str(a.MIME)
			data := sha256.Sum256(a.Data)
			_, _ = d.Write(data[:])
		}
		said := d.sum()
		c.sum, c.exact = link(c.sum, said), link(c.exact, said)
	}
}

// flush makes what the assistant said part of the digest.
func (c *chain) flush() {
	if !c.said.any {
		return
	}
	d, args := newDigester(), newDigester()
	d.str(string(bridge.RoleAssistant))
	d.str(c.said.text.String())
	d.tag('C', len(c.said.calls))
	for _, call := range c.said.calls {
		d.str(call.ID)
		d.str(call.Name)
		args.value(arguments(call.Args))
	}
	said := d.sum()
	c.sum, c.exact = link(c.sum, said), link(link(c.exact, said), args.sum())
	c.said = assistantSaid{}
}

// key is the digest of all that was added, and the exact one.
func (c *chain) key() (sum, exact digest) {
	c.flush()
	return c.sum, c.exact
}

// split divides a conversation after the last word of the assistant: what is
// before it may be known, what comes after it is new.
func split(messages []bridge.Message) (known, fresh []bridge.Message) {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == bridge.RoleAssistant {
			return messages[:i+1], messages[i+1:]
		}
	}
	return nil, messages
}
