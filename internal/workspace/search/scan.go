package search

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// sniffBytes is where a zero byte makes a file binary altogether. Of a file
// with one further on, the lines before it are searched.
const sniffBytes = 64 << 10

// scannedSize is the size of the largest file that is read into memory unless
// the caller names another.
const scannedSize = 64 << 20

// scan searches without ripgrep, one file after the other. It is slower, and
// differs from ripgrep in three ways: regular expressions are Go's, in which
// \w, \d, \s and \b know ASCII only; bytes that are not UTF-8 match as
// replacement characters; and of a file with a late zero byte it may show more
// lines.
func scan(ctx context.Context, o Options, find matcher, found *collection) error {
	if o.MaxFileSize == 0 {
		o.MaxFileSize = scannedSize
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return noDirectory(o.Dir, err)
	}
	defer func() { _ = root.Close() }() // only read from
	err = files.Walk(ctx, root, o.Scope, func(f files.File) error {
		found.scan(f.Path, readText(f, o.MaxFileSize), find)
		if found.done {
			return fs.SkipAll
		}
		return nil
	})
	found.flush()
	return err
}

// scanLive searches the texts that stand for files, and takes those files out
// of the scope of the search that follows. A file that is ignored stays so
// while it is edited.
func (o *Options) scanLive(ctx context.Context, find matcher, found *collection) error {
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return noDirectory(o.Dir, err)
	}
	defer func() { _ = root.Close() }() // only read from
	meant, err := files.Meant(ctx, root, o.Scope, slices.Collect(maps.Keys(o.Live)))
	if err != nil {
		return err
	}
	for _, path := range meant {
		if text := strings.TrimPrefix(o.Live[path], "\ufeff"); !found.done && !isBinary(text) {
			found.scan(path, text, find)
		}
	}
	found.flush()
	live, keep := o.Live, o.Keep
	o.Keep = func(path string) bool {
		_, stands := live[path]
		return !stands && (keep == nil || keep(path))
	}
	return nil
}

// scan takes the lines of a file that match, and their context.
func (c *collection) scan(path, text string, find matcher) {
	if text == "" || strings.ContainsAny(path, lineBreaks) {
		return
	}
	c.begin(path)
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		switch at := find(line); {
		case c.done:
			return
		case at >= 0:
			c.match(number, strings.Clone(line), at) // so that a hit does not keep the whole text
		case c.context > 0:
			c.surround(number, strings.Clone(line))
		}
	}
}

// readText returns the text of a file, "" if it has none, is too large or
// cannot be read.
func readText(f files.File, maxSize int64) string {
	file, info, err := f.Open()
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // only read from
	if info.Size() > maxSize {
		return ""
	}
	var b strings.Builder
	b.Grow(int(info.Size()))
	// Most binary files show it at their beginning.
	_, err = io.Copy(&b, io.LimitReader(file, min(info.Size(), sniffBytes)))
	marked := files.HasUTF16Mark(b.String())
	if err != nil || !marked && isBinary(b.String()) {
		return ""
	}
	if _, err = io.Copy(&b, io.LimitReader(file, info.Size()-int64(b.Len()))); err != nil {
		return ""
	}
	text := b.String()
	if marked {
		if text = files.DecodeUTF16(text); isBinary(text) {
			return ""
		}
	}
	text = strings.TrimPrefix(text, "\ufeff")
	if i := strings.IndexByte(text, 0); i >= 0 {
		text = text[:strings.LastIndexByte(text[:i], '\n')+1]
	}
	return text
}

func isBinary(text string) bool {
	return strings.IndexByte(text[:min(len(text), sniffBytes)], 0) >= 0
}

// matcher returns the offset of the first match in a line, or -1.
type matcher func(line string) int

// wordChars are the characters of words, as in the Unicode standard.
const wordChars = `\pL\pM\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}`

func newMatcher(o Options) (matcher, error) {
	expression := o.Query
	if !o.Regex {
		expression = regexp.QuoteMeta(o.Query)
	}
	if !o.CaseSensitive {
		expression = "(?i:" + expression + ")"
	}
	expression = "(" + expression + ")"
	if o.Word {
		expression = `(?:^|[^` + wordChars + `])` + expression + `(?:$|[^` + wordChars + `])`
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, badRegex(err.Error())
	}
	// Literal text in ASCII, as most queries are, needs no expression where
	// no character outside ASCII can be another case of a letter.
	plain := literal(o)
	return func(line string) int {
		if plain != nil && (o.CaseSensitive || ascii(line)) {
			return plain(line)
		}
		if found := re.FindStringSubmatchIndex(line); found != nil {
			return found[2]
		}
		return -1
	}, nil
}
