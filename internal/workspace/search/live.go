package search

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// scanLive searches the texts that stand for files, and takes those files out
// of the scope of what comes after it. Only files that are meant count: one
// that is ignored stays so while it is edited.
func (o *Options) scanLive(ctx context.Context, found *collection) error {
	m, err := newMatcher(*o)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return noDirectory(o.Dir, err)
	}
	defer func() { _ = root.Close() }() // only read from
	meant, err := files.Meant(ctx, root, o.Scope, slices.Collect(maps.Keys(o.Live)))
	if err != nil {
		return err
	}
	var s scratch
	for _, path := range meant {
		text := []byte(strings.TrimPrefix(o.Live[path], "\ufeff"))
		if strings.ContainsAny(path, lineBreaks) || bytes.IndexByte(text[:min(len(text), sniffBytes)], 0) >= 0 {
			continue
		}
		all := &gathered{}
		own := &collection{limit: o.MaxResults, context: o.Context, take: all.take}
		own.begin(path)
		m.search(text, &s, own)
		own.flush()
		if own.count > 0 {
			found.merge(path, all.sorted(), own.truncated)
		}
	}
	live, keep := o.Live, o.Keep
	o.Keep = func(path string) bool {
		_, stands := live[path]
		return !stands && (keep == nil || keep(path))
	}
	return nil
}
