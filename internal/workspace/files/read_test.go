package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func utf16Bytes(order binary.AppendByteOrder, s string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

func readText(t *testing.T, text string, o ReadOptions) Content {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), text)
	c, err := Read(t.Context(), openRoot(t, dir), "f", o)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	if c.SHA256 != hex.EncodeToString(sum[:]) || c.Size != int64(len(text)) || c.Path != "f" {
		t.Errorf("got hash %s, size %d, path %s", c.SHA256, c.Size, c.Path)
	}
	return c
}

func TestReadEncodings(t *testing.T) {
	tests := []struct {
		name, file string
		want       Content
	}{
		{"empty", "", Content{Encoding: UTF8, LineEnding: NoEnding}},
		{"no newline", "a", Content{Content: "a", Encoding: UTF8, LineEnding: NoEnding, TotalLines: 1, Lines: 1}},
		{"lf", "a\nb\n", Content{Content: "a\nb\n", Encoding: UTF8, LineEnding: LF, TotalLines: 2, Lines: 2}},
		{"crlf", "a\r\nb", Content{Content: "a\r\nb", Encoding: UTF8, LineEnding: CRLF, TotalLines: 2, Lines: 2}},
		{"cr", "a\rb\r", Content{Content: "a\rb\r", Encoding: UTF8, LineEnding: CR, TotalLines: 2, Lines: 2}},
		{"mixed", "a\rb\nc\r\n", Content{Content: "a\rb\nc\r\n", Encoding: UTF8, LineEnding: Mixed, TotalLines: 2, Lines: 2}},
		{"cr at the end", "a\nb\r", Content{Content: "a\nb\r", Encoding: UTF8, LineEnding: Mixed, TotalLines: 2, Lines: 2}},
		{"utf-8 bom", "\ufeffé\n", Content{Content: "é\n", Encoding: UTF8, BOM: true, LineEnding: LF, TotalLines: 1, Lines: 1}},
		{"only a bom", "\ufeff", Content{Encoding: UTF8, BOM: true, LineEnding: NoEnding}},
		{"utf-16le bom", "\xff\xfe" + utf16Bytes(binary.LittleEndian, "a😀\r\n"), Content{Content: "a😀\r\n", Encoding: UTF16LE, BOM: true, LineEnding: CRLF, TotalLines: 1, Lines: 1}},
		{"utf-16be bom", "\xfe\xff" + utf16Bytes(binary.BigEndian, "é\nx"), Content{Content: "é\nx", Encoding: UTF16BE, BOM: true, LineEnding: LF, TotalLines: 2, Lines: 2}},
		{"utf-16le unmarked", utf16Bytes(binary.LittleEndian, "hello\né"), Content{Content: "hello\né", Encoding: UTF16LE, LineEnding: LF, TotalLines: 2, Lines: 2}},
		{"utf-16be unmarked", utf16Bytes(binary.BigEndian, "hello\n"), Content{Content: "hello\n", Encoding: UTF16BE, LineEnding: LF, TotalLines: 1, Lines: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := readText(t, test.file, ReadOptions{})
			test.want.Path, test.want.SHA256, test.want.Size, test.want.Offset = got.Path, got.SHA256, got.Size, 1
			if got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
	for name, file := range map[string]string{
		"zero byte": "ab\x00cd\n", "latin-1": "caf\xe9\n", "half a character": "a\xc3", "program": "\x7fELF\x02\x01\x01\x00\x00\x00",
		"half a unit": "\xff\xfea\x00b", "lone surrogate": "\xff\xfe\x00\xd8a\x00", "numbers": "\x01\x00\x02\x00", "late zero": strings.Repeat("text\n", chunkBytes) + "\x00",
		"late bad byte": strings.Repeat("text\n", chunkBytes) + "\xff",
	} {
		t.Run(name, func(t *testing.T) {
			got := readText(t, file, ReadOptions{MaxBytes: 1 << 20})
			if got.Encoding != Base64 || got.Content != base64.StdEncoding.EncodeToString([]byte(file)) || got.Truncated || got.LineEnding != NoEnding {
				t.Errorf("got %s, %d bytes, truncated %t", got.Encoding, len(got.Content), got.Truncated)
			}
		})
	}
	if got := readText(t, strings.Repeat("\x00", 100), ReadOptions{MaxBytes: 10}); !got.Truncated || got.Content != base64.StdEncoding.EncodeToString(make([]byte, 10)) {
		t.Errorf("cut: got %+v", got)
	}
}

func TestReadRanges(t *testing.T) {
	const file = "one\ntwo\nthrée\nfour\nfive"
	tests := []struct {
		o     ReadOptions
		want  string
		lines int
		cut   bool
	}{
		{ReadOptions{}, file, 5, false},
		{ReadOptions{Offset: 2}, "two\nthrée\nfour\nfive", 4, false},
		{ReadOptions{Offset: 2, Limit: 2}, "two\nthrée\n", 2, true},
		{ReadOptions{Offset: 5, Limit: 1}, "five", 1, false},
		{ReadOptions{Offset: 4, Limit: 100}, "four\nfive", 2, false},
		{ReadOptions{Offset: 6}, "", 0, false},
		{ReadOptions{MaxBytes: 10}, "one\ntwo\n", 2, true},
		{ReadOptions{MaxBytes: 8}, "one\ntwo\n", 2, true},
		{ReadOptions{MaxBytes: 2}, "on", 1, true},
		{ReadOptions{Offset: 3, MaxBytes: 4}, "thr", 1, true},
		{ReadOptions{Offset: 3, MaxBytes: 5}, "thré", 1, true},
		{ReadOptions{MaxBytes: len(file)}, file, 5, false},
	}
	for _, test := range tests {
		for _, separator := range []string{"\n", "\r"} {
			got := readText(t, strings.ReplaceAll(file, "\n", separator), test.o)
			if got.Content != strings.ReplaceAll(test.want, "\n", separator) || got.Lines != test.lines || got.Truncated != test.cut ||
				got.TotalLines != 5 || got.Offset != max(1, test.o.Offset) {
				t.Errorf("%+v: got %+v", test.o, got)
			}
		}
	}
}

// Any division into pieces gives the same text.
func TestReadAcrossChunks(t *testing.T) {
	line := "aé😀漢字\r\n"
	var file strings.Builder
	for file.Len() < 3*chunkBytes {
		file.WriteString(line)
	}
	lines := file.Len() / len(line)
	for shift := range len(line) {
		text := strings.Repeat("x", shift) + file.String()
		got := readText(t, text, ReadOptions{})
		if got.Content != text || got.LineEnding != CRLF || got.TotalLines != lines || got.Encoding != UTF8 {
			t.Fatalf("shift %d: %s %s, %d lines", shift, got.Encoding, got.LineEnding, got.TotalLines)
		}
		got = readText(t, "\xff\xfe"+utf16Bytes(binary.LittleEndian, text), ReadOptions{Offset: lines, Limit: 1})
		if got.Content != line || got.TotalLines != lines || got.LineEnding != CRLF || got.Encoding != UTF16LE {
			t.Fatalf("shift %d: %s %s, %d lines, %q", shift, got.Encoding, got.LineEnding, got.TotalLines, got.Content)
		}
	}
}

func TestReadOfHugeFilesStopsBehindTheRange(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "huge")
	write(t, name, strings.Repeat("line\n", 100))
	if err := os.Truncate(name, 1<<40); err != nil { // sparse
		t.Fatal(err)
	}
	c, err := Read(t.Context(), openRoot(t, dir), "huge", ReadOptions{MaxBytes: 100})
	if err != nil || c.Encoding != Base64 || !c.Truncated || c.SHA256 != "" || c.Size != 1<<40 {
		t.Errorf("got %+v, %v", c, err)
	}

	write(t, filepath.Join(dir, "long"), strings.Repeat("line\n", chunkBytes))
	c, err = Read(t.Context(), openRoot(t, dir), "long", ReadOptions{Offset: 10, Limit: 2, MaxHash: 1000})
	if err != nil || c.Content != "line\nline\n" || c.TotalLines != -1 || !c.Truncated || c.SHA256 != "" || c.LineEnding != LF {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestReadRefusals(t *testing.T) {
	dir := t.TempDir()
	tree(t, dir, map[string]string{"d/f": "x", "bin": "\x00\x01"})
	for link, target := range map[string]string{"out": os.TempDir(), "in": "d/f", "loop": "loop", "gone": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	root := openRoot(t, dir)
	tests := []struct {
		path, words string
		o           ReadOptions
		code        bridge.Code
	}{
		{"", "not a path inside", ReadOptions{}, bridge.CodeInvalid},
		{"/etc/passwd", "not a path inside", ReadOptions{}, bridge.CodeInvalid},
		{"../x", "not a path inside", ReadOptions{}, bridge.CodeInvalid},
		{"d/../../x", "not a path inside", ReadOptions{}, bridge.CodeInvalid},
		{"d/f\x00", "not a path inside", ReadOptions{}, bridge.CodeInvalid},
		{"d", "a directory", ReadOptions{}, bridge.CodeInvalid},
		{".", "a directory", ReadOptions{}, bridge.CodeInvalid},
		{"out", "leads out", ReadOptions{}, bridge.CodeInvalid},
		{"out/x", "leads out", ReadOptions{}, bridge.CodeInvalid},
		{"loop", "cannot read loop", ReadOptions{}, bridge.CodeInternal},
		{"nope", "no such file", ReadOptions{}, bridge.CodeNotFound},
		{"gone", "no such file", ReadOptions{}, bridge.CodeNotFound},
		{"d/f", "negative", ReadOptions{Offset: -1}, bridge.CodeInvalid},
		{"bin", "not text", ReadOptions{Offset: 2}, bridge.CodeInvalid},
	}
	for _, test := range tests {
		_, err := Read(t.Context(), root, test.path, test.o)
		if bridge.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%q: got %v", test.path, err)
		}
	}
	if c, err := Read(t.Context(), root, "./d/../in", ReadOptions{}); err != nil || c.Content != "x" || c.Path != "in" {
		t.Errorf("a link inside: got %+v, %v", c, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, root, "d/f", ReadOptions{}); bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Errorf("canceled: got %v", err)
	}
}

// FuzzRead: what comes back as text is the file, and paging gives it back.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"a\nb\r\nc", "\xff\xfea\x00", "\xef\xbb\xbfx", "\r\r", "é\n漢", "\x00", "a\x00b\x00"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, file []byte, limit int) {
		page := func(o ReadOptions) Content {
			p := &pass{o: o, size: int64(len(file)), file: bytes.NewReader(file)}
			c, err := p.content(t.Context(), '\n')
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		whole := page(ReadOptions{Offset: 1, MaxBytes: 1 << 30, MaxHash: 1 << 30})
		if whole.Encoding == Base64 {
			return
		}
		if !utf8.ValidString(whole.Content) || whole.Truncated || whole.Lines != whole.TotalLines {
			t.Errorf("got %+v", whole)
		}
		if whole.Encoding == UTF8 && whole.Content != strings.TrimPrefix(string(file), "\ufeff") {
			t.Errorf("got %q of %q", whole.Content, file)
		}
		limit = 1 + (limit&0xff)%8
		var again strings.Builder
		for at := 1; ; at += limit {
			c := page(ReadOptions{Offset: at, Limit: limit, MaxBytes: 1 << 30, MaxHash: 1 << 30})
			again.WriteString(c.Content)
			if !c.Truncated {
				break
			}
		}
		if again.String() != whole.Content {
			t.Errorf("by pages of %d: %q, at once: %q", limit, again.String(), whole.Content)
		}
	})
}
