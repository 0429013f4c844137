package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// genesis is what the first entry of a log has for the hash before it.
const genesis = "0000000000000000000000000000000000000000000000000000000000000000"

// hashMark separates an entry from its hash, which is always its last member.
const hashMark = `,"hash":"`

const hashTail = len(hashMark) + 2*sha256.Size + len(`"}`)

var (
	errSeal    = errors.New("the hash does not fit the entry")
	errNoEntry = errors.New("not an entry")
)

// seal encodes an entry as a line without its line end and puts the hash on.
// The hash is SHA-256 over the bytes of the line as it would be without the
// hash member, so that nothing at all can be changed in a line, and anybody
// can check it without knowing how entries are encoded.
func seal(e Entry) ([]byte, string, error) {
	e.Hash = ""
	body, err := encode(e)
	if err != nil {
		return nil, "", err
	}
	hash := hexSum(body)
	body = append(body[:len(body)-1], hashMark...)
	body = append(body, hash...)
	return append(body, `"}`...), hash, nil
}

// unseal decodes a line and checks its hash. It returns errSeal with the
// entry if only the hash is wrong.
func unseal(line []byte) (Entry, error) {
	if len(line) <= hashTail || !bytes.HasPrefix(line[len(line)-hashTail:], []byte(hashMark)) {
		return Entry{}, errNoEntry
	}
	// Input and output are not decoded: this package does not read them.
	var wire struct {
		Entry
		Input  json.RawMessage `json:"input"`
		Output json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(line, &wire); err != nil {
		return Entry{}, err
	}
	e := wire.Entry
	if e.Seq == 0 || e.Hash == "" {
		return Entry{}, errNoEntry
	}
	if wire.Input != nil {
		e.Input = wire.Input
	}
	if wire.Output != nil {
		e.Output = wire.Output
	}
	sum := sha256.New()
	sum.Write(line[:len(line)-hashTail]) // never fails
	sum.Write([]byte{'}'})
	if hex.EncodeToString(sum.Sum(nil)) != e.Hash || e.Hash != string(line[len(line)-hashTail+len(hashMark):len(line)-2]) {
		return e, errSeal
	}
	return e, nil
}

// encode is json.Marshal without the escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// cut shortens s to at most n bytes, between characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for back := 0; back < utf8.UTFMax && n-back > 0; back++ {
		if utf8.RuneStart(s[n-back]) {
			return s[:n-back]
		}
	}
	return s[:n]
}
