// Package search finds text in the files of a directory tree. The engine is
// ripgrep, a child process; without it, a scanner of this package finds the
// same hits, except as the comment of scan says. It knows no policy: package
// workspace calls it under the guard and says in Scope.Keep what may be seen.
// No hit escapes that. Find may be called concurrently.
package search

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

const (
	// DefaultMaxResults is how many hits there are unless the caller says.
	DefaultMaxResults = 200

	maxContext    = 100
	maxQueryBytes = 16 << 10
	// maxSnippet is how much of a line is shown.
	maxSnippet = 1000
	// maxTime is how long a search takes at most.
	maxTime = time.Minute
	// maxMemory is what ripgrep may have. It needs some megabytes, unless a
	// file has lines of hundreds of them.
	maxMemory = 1 << 30
)

// Options says what to look for and where.
type Options struct {
	files.Scope
	Dir   string // the tree's directory
	Query string // one line; literal text unless Regex

	Regex         bool // Query is a regular expression
	CaseSensitive bool // otherwise a and A are the same
	Word          bool // what is found must not touch word characters

	Context     int           // lines to show before and after each hit, at most 100
	MaxResults  int           // 0 means 200
	MaxFileSize int64         // larger files are passed over; 0 means no limit, and 64 MiB for the scanner
	MaxTime     time.Duration // what is found by then counts; 0 means a minute

	// Live are texts that count in place of the files of their paths: what an
	// editor has not saved. They are searched by the scanner.
	Live map[string]string

	// RG is the path of ripgrep, such as FindRipgrep returns. Without it the
	// scanner is used.
	RG string

	memory uint64 // what ripgrep may have; 0 means maxMemory
}

// Hit is a line with a match.
type Hit struct {
	File    string   `json:"file"`
	Line    int      `json:"line"`          // from 1
	Column  int      `json:"column"`        // of the first match in the line, in characters (runes), from 1
	Snippet string   `json:"snippet"`       // the line, without its end; bytes that are not UTF-8 are replaced
	Cut     bool     `json:"cut,omitempty"` // the line is long, and Snippet is the part of it around the match
	Before  []string `json:"before,omitempty"`
	After   []string `json:"after,omitempty"`
}

// Engine names what did the search.
type Engine string

// The engines.
const (
	Ripgrep Engine = "ripgrep"
	Scanner Engine = "scanner"
)

// Result is the answer of a search.
type Result struct {
	Hits []Hit `json:"hits"` // in the order of files.Compare and by line; never nil
	// Truncated means that there are more hits than were asked for, or that not
	// all was searched: it took too long, or a line was too long to hold. Which
	// hits are returned is then up to chance: the first that were found.
	Truncated bool   `json:"truncated"`
	Engine    Engine `json:"engine"`
}

// Taker takes hits of one file. It is called several times for a file with
// many, one call after the other, and for files in whatever order they are
// found. The hits are its own only until it returns. With false it takes no
// more, and says that not all of these were taken.
type Taker func(file string, hits []Hit) bool

var errTime = errors.New("the search took too long")

// Find hands on the lines that match, one hit a line, as they are found. Files
// whose path holds a line break are passed over, as are binary ones and those that
// cannot be read. It returns, without hits in the result, when its child process
// and goroutines have gone.
func Find(ctx context.Context, o Options, take Taker) (Result, error) {
	if err := o.complete(); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.MaxTime, errTime)
	defer cancel()
	found := &collection{limit: o.MaxResults, context: o.Context, take: take}
	var find matcher
	if o.RG == "" || len(o.Live) > 0 {
		var err error
		if find, err = newMatcher(o); err != nil {
			return Result{}, err
		}
	}
	if len(o.Live) > 0 {
		if err := o.scanLive(ctx, find, found); err != nil {
			return Result{}, err
		}
	}
	filter, err := files.NewFilter(o.Scope)
	if err != nil {
		return Result{}, err
	}
	engine := Ripgrep
	if o.RG == "" {
		engine = Scanner
	}
	switch {
	case found.done:
	case o.RG == "":
		err = scan(ctx, o, find, found)
	default:
		err = ripgrep(ctx, o, filter, found)
	}
	if errors.Is(context.Cause(ctx), errTime) && !found.done {
		found.flush()
		return Result{Truncated: true, Engine: engine}, nil
	}
	if ctx.Err() != nil && !found.done {
		return Result{}, &bridge.Error{Code: bridge.CodeOf(ctx.Err()), Message: "the search was stopped", Cause: context.Cause(ctx)}
	}
	if err != nil {
		return Result{}, bridge.AsError(err)
	}
	return Result{Truncated: found.truncated, Engine: engine}, nil
}

func (o *Options) complete() error {
	invalid := func(message, remedy string) error {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: message, Remedy: remedy}
	}
	switch {
	case o.Query == "":
		return invalid("there is nothing to search for: the query is empty", "Give a text or a regular expression.")
	case strings.ContainsAny(o.Query, "\x00\n\r"):
		return invalid("the query holds a line break or a zero byte", "Search for text within one line.")
	case !utf8.ValidString(o.Query):
		return invalid("the query is not UTF-8", "Search for text in UTF-8; other text in files is shown with replacement characters.")
	case len(o.Query) > maxQueryBytes:
		return invalid(fmt.Sprintf("a query of %d bytes is too long", len(o.Query)), fmt.Sprintf("Search for at most %d bytes.", maxQueryBytes))
	case o.Context < 0 || o.MaxResults < 0 || o.MaxFileSize < 0:
		return invalid("context and the limits cannot be negative", "Use 0 for the default.")
	case o.Context > maxContext:
		return invalid(fmt.Sprintf("%d lines of context are too many", o.Context), fmt.Sprintf("Ask for at most %d, and read the file for more.", maxContext))
	case o.Dir == "":
		return &bridge.Error{Code: bridge.CodeInternal, Cause: errors.New("search without a directory")}
	}
	if o.MaxResults == 0 {
		o.MaxResults = DefaultMaxResults
	}
	if o.MaxTime == 0 {
		o.MaxTime = maxTime
	}
	if o.memory == 0 {
		o.memory = maxMemory
	}
	return nil
}
