package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

// Files lists the files of all folders.
func (f *Folders) Files(ctx context.Context, o files.ListOptions) (files.Listing, error) {
	return inAll(f, func(w *Workspace) (files.Listing, error) { return w.List(ctx, o) },
		func(all []*member) (files.Listing, error) { return listAll(ctx, all, o) })
}

func listAll(ctx context.Context, all []*member, o files.ListOptions) (files.Listing, error) {
	if _, err := files.NewFilter(o.Scope); err != nil {
		return files.Listing{}, err
	}
	if o.Limit <= 0 {
		o.Limit = files.DefaultListLimit
	}
	out := files.Listing{Files: []string{}}
	for _, m := range byName(all) {
		scope, some := scopeIn(o.Scope, m.name)
		if !some {
			continue
		}
		left := max(1, o.Limit-len(out.Files)) // one more tells whether there are more
		l, err := m.ws.List(ctx, files.ListOptions{Scope: scope, Limit: left})
		if err != nil {
			return files.Listing{}, err
		}
		for _, name := range l.Files {
			if len(out.Files) == o.Limit {
				out.Truncated = true
				break
			}
			out.Files = append(out.Files, join(m.name, name))
		}
		if out.Truncated = out.Truncated || l.Truncated; out.Truncated {
			break
		}
	}
	return out, nil
}

// Search finds text in all folders, as Workspace.Search does in one.
func (f *Folders) Search(ctx context.Context, o search.Options, take search.Taker) (search.Result, error) {
	return inAll(f, func(w *Workspace) (search.Result, error) { return w.Search(ctx, o, take) },
		func(all []*member) (search.Result, error) { return searchAll(ctx, all, o, take) })
}

func searchAll(ctx context.Context, all []*member, o search.Options, take search.Taker) (search.Result, error) {
	if _, err := files.NewFilter(o.Scope); err != nil {
		return search.Result{}, err
	}
	if o.MaxResults == 0 {
		o.MaxResults = search.DefaultMaxResults
	}
	var out search.Result
	count := 0
	for _, m := range byName(all) {
		scope, some := scopeIn(o.Scope, m.name)
		if !some {
			continue
		}
		one := o
		one.Scope, one.MaxResults = scope, max(1, o.MaxResults-count) // one more tells whether there are more
		r, err := m.ws.Search(ctx, one, func(file string, hits []search.Hit) bool {
			if count == o.MaxResults {
				return false
			}
			count += len(hits)
			for i := range hits {
				hits[i].File = join(m.name, hits[i].File)
			}
			return take(join(m.name, file), hits)
		})
		if err != nil {
			return search.Result{}, err
		}
		out.Engine = r.Engine
		if out.Truncated = out.Truncated || r.Truncated; out.Truncated {
			break
		}
	}
	return out, nil
}

// byName are the folders that could be opened, in the order in which paths in
// them are sorted.
func byName(all []*member) []*member {
	all = slices.DeleteFunc(slices.Clone(all), func(m *member) bool { return m.err != nil })
	slices.SortFunc(all, func(a, b *member) int { return files.Compare(a.name, b.name) })
	return all
}

// scopeIn is a scope as it is in one of several folders, whose name paths
// begin with; false if nothing in it is meant. A pattern without a slash, or
// that begins with **, holds in all of them.
func scopeIn(s files.Scope, folder string) (files.Scope, bool) {
	out := s
	out.Glob, out.Exclude = nil, nil
	for _, p := range s.Glob {
		if own, meant := patternIn(p, folder); meant {
			out.Glob = append(out.Glob, own)
		}
	}
	for _, p := range s.Exclude {
		own, meant := patternIn(p, folder)
		if bare := strings.Trim(p, "/"); meant && own == everything || !strings.Contains(bare, "/") && doublestar.MatchUnvalidated(bare, folder) {
			return out, false // the whole folder
		}
		if meant {
			out.Exclude = append(out.Exclude, own)
		}
	}
	return out, len(s.Glob) == 0 || len(out.Glob) > 0
}

const everything = "**"

func patternIn(pattern, folder string) (own string, meant bool) {
	p := strings.TrimPrefix(pattern, "./")
	anchored := strings.HasPrefix(p, "/")
	first, rest, deep := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	switch {
	case !deep && !anchored, first == everything:
		return pattern, true
	case !doublestar.MatchUnvalidated(first, folder) || !deep:
		return "", false
	case rest == "":
		return everything, true
	}
	return "/" + rest, true
}

// partsOf are the folders that a diff speaks of.
func partsOf(all []*member, diff string, o PatchOptions) ([]*part, error) {
	parsed, err := patch.Parse(diff, 0)
	if err != nil {
		return nil, err
	}
	names := parsed.Names()
	for name := range o.Verify {
		names = append(names, name)
	}
	var parts []*part
	for _, name := range names {
		m, rest, prefix, err := in(all, name)
		switch {
		case err != nil:
			return nil, err
		case rest == "":
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: name + " is a folder of the editor, not a file"}
		}
		if !slices.ContainsFunc(parts, func(p *part) bool { return p.ws == m.ws }) {
			parts = append(parts, &part{ws: m.ws, under: prefix})
		}
	}
	return parts, nil
}
