package view

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// key is a key that was pressed, or text that was typed or pasted.
type key struct {
	code keyCode
	text string // of keyText and keyPaste
}

type keyCode int

const (
	keyText keyCode = iota
	keyPaste
	keyEnter
	keyNewline
	keyTab
	keyBackspace
	keyDelete
	keyLeft
	keyRight
	keyWordLeft
	keyWordRight
	keyUp
	keyDown
	keyHome
	keyEnd
	keyKillEnd
	keyKillStart
	keyKillWord
	keyKillNextWord
	keyYank
	keyClear
	keyInterrupt
	keyEOF
	keyEscape
	keyPageUp
	keyPageDown
)

// decoder makes keys of the bytes that a terminal in raw mode sends.
type decoder struct {
	rest  []byte // a sequence of which the end has not come
	paste []byte
	in    bool // a paste
}

const (
	pasteOn  = "\x1b[?2004h" // the terminal marks what is pasted
	pasteOff = "\x1b[?2004l"
	pasteEnd = "\x1b[201~"
	// maxPaste bounds a paste whose end does not come.
	maxPaste = 1 << 20
)

var controls = map[byte]keyCode{
	'\r': keyEnter, '\n': keyEnter, '\t': keyTab, 0x7f: keyBackspace, 0x08: keyBackspace,
	0x01: keyHome, 0x02: keyLeft, 0x03: keyInterrupt, 0x04: keyEOF, 0x05: keyEnd, 0x06: keyRight, 0x0b: keyKillEnd,
	0x0c: keyClear, 0x0e: keyDown, 0x10: keyUp, 0x15: keyKillStart, 0x17: keyKillWord, 0x19: keyYank,
}

// withAlt are keys that the terminal sends behind an escape.
var withAlt = map[byte]keyCode{'\r': keyNewline, '\n': keyNewline, 'b': keyWordLeft, 'f': keyWordRight, 'd': keyKillNextWord, 0x7f: keyKillWord}

// sequences are those behind CSI (ESC [) and SS3 (ESC O).
var sequences = map[string]keyCode{
	"A": keyUp, "B": keyDown, "C": keyRight, "D": keyLeft, "H": keyHome, "F": keyEnd,
	"1~": keyHome, "7~": keyHome, "4~": keyEnd, "8~": keyEnd, "3~": keyDelete, "5~": keyPageUp, "6~": keyPageDown,
	"1;5C": keyWordRight, "1;3C": keyWordRight, "1;5D": keyWordLeft, "1;3D": keyWordLeft, "13;2u": keyNewline,
}

// add decodes more bytes. What is unknown is left out.
func (d *decoder) add(b []byte) (keys []key) {
	d.rest = append(d.rest, b...)
	for len(d.rest) > 0 {
		n, k, ok := d.next()
		if n == 0 {
			break // more must come
		}
		d.rest = d.rest[n:]
		switch last := len(keys) - 1; {
		case !ok:
		case k.code == keyText && last >= 0 && keys[last].code == keyText:
			keys[last].text += k.text
		default:
			keys = append(keys, k)
		}
	}
	return keys
}

// next takes one key from the rest: how many bytes it has, 0 if they are not
// all there.
func (d *decoder) next() (n int, k key, ok bool) {
	b := d.rest
	switch {
	case d.in:
		return d.pasted()
	case b[0] == 0x1b:
		return d.escape()
	case b[0] < ' ' || b[0] == 0x7f:
		code, ok := controls[b[0]]
		return 1, key{code: code}, ok
	case !utf8.FullRune(b):
		return 0, k, false
	}
	r, n := utf8.DecodeRune(b)
	return n, key{text: string(b[:n])}, r != utf8.RuneError || n > 1
}

// flush is the key that a lone escape is when nothing follows it.
func (d *decoder) flush() (keys []key) {
	if len(d.rest) == 1 && d.rest[0] == 0x1b {
		d.rest, keys = nil, []key{{code: keyEscape}}
	}
	return keys
}

func (d *decoder) escape() (n int, k key, ok bool) {
	b := d.rest
	if len(b) == 1 {
		return 0, k, false
	}
	if b[1] != '[' && b[1] != 'O' {
		if code, ok := withAlt[b[1]]; ok {
			return 2, key{code: code}, true
		}
		return 1, key{code: keyEscape}, true // what follows is a key of its own
	}
	end := bytes.IndexFunc(b[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
	switch {
	case end < 0 && len(b) > 32:
		return 2, k, false
	case end < 0:
		return 0, k, false
	}
	sequence := string(b[2 : 2+end+1])
	if sequence == "200~" {
		d.in = true
		return 2 + end + 1, k, false
	}
	code, ok := sequences[sequence]
	return 2 + end + 1, key{code: code}, ok
}

// pasted collects a paste until its end has come.
func (d *decoder) pasted() (n int, k key, ok bool) {
	end := bytes.Index(d.rest, []byte(pasteEnd))
	part, n := d.rest[:max(0, end)], end+len(pasteEnd)
	if end < 0 {
		n = max(0, len(d.rest)-len(pasteEnd)+1) // the end may have begun
		part = d.rest[:n]
	}
	d.paste = append(d.paste, part[:min(len(part), maxPaste-len(d.paste))]...)
	if end < 0 {
		return n, k, false
	}
	text := strings.ToValidUTF8(string(d.paste), "")
	d.paste, d.in = nil, false
	return n, key{keyPaste, text}, true
}
