package orchestrate

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// hide returns v with the secrets in its strings hidden, for whatever a run
// keeps or shows. The model gets no more than that either, so a resumed run
// loses nothing.
func hide[T any](mask func(string) string, v T) (T, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return v, fmt.Errorf("encode %T: %w", v, err)
	}
	clean, err := hideStrings(mask, data)
	if err != nil || bytes.Equal(clean, data) {
		return v, err
	}
	var out T
	if err := json.Unmarshal(clean, &out); err != nil {
		return v, fmt.Errorf("decode %T: %w", v, err)
	}
	return out, nil
}

// hideStrings passes every string of a JSON text through mask.
func hideStrings(mask func(string) string, data []byte) ([]byte, error) {
	var out bytes.Buffer
	for len(data) > 0 {
		start := bytes.IndexByte(data, '"')
		if start < 0 {
			break
		}
		end := start + 1
		for data[end] != '"' {
			if data[end] == '\\' {
				end++
			}
			end++
		}
		end++
		out.Write(data[:start])
		var text string
		if err := json.Unmarshal(data[start:end], &text); err != nil {
			return nil, fmt.Errorf("read a string of a run: %w", err)
		}
		if clean := mask(text); clean != text {
			literal, err := json.Marshal(clean)
			if err != nil {
				return nil, fmt.Errorf("write a string of a run: %w", err)
			}
			out.Write(literal)
		} else {
			out.Write(data[start:end])
		}
		data = data[end:]
	}
	out.Write(data)
	return out.Bytes(), nil
}
