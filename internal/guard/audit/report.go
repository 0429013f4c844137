package audit

import "fmt"

// Kind is the kind of a problem of a log.
type Kind string

// The kinds of problems.
const (
	KindEdited     Kind = "edited"     // an entry does not have its hash, or is not the one that the next refers to
	KindRemoved    Kind = "removed"    // entries are missing
	KindTruncated  Kind = "truncated"  // entries are missing at the end
	KindReordered  Kind = "reordered"  // an entry stands after a later one
	KindDuplicated Kind = "duplicated" // an entry stands there twice
	KindGarbage    Kind = "garbage"    // something that is no entry
	KindHead       Kind = "head"       // head.json is missing or wrong, or was
	KindWitness    Kind = "witness"    // the witness is missing, or was
	KindExpect     Kind = "expect"     // the expected hash is not in the log
	KindSegment    Kind = "segment"    // a summary is not that of its file
)

// Problem is one thing that is wrong with a log. Line and Seq are 0 where
// there is none.
type Problem struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Seq  uint64 `json:"seq,omitempty"`
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
}

// String returns the problem as one line for people.
func (p Problem) String() string {
	where := p.File
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	if where != "" {
		where += ": "
	}
	return where + string(p.Kind) + ": " + p.Text
}

// Report is what Verify found out. Head is the hash of the last entry, to be
// kept elsewhere; it is "" for an empty log.
type Report struct {
	Files   int    `json:"files"`
	Entries int    `json:"entries"`
	LastSeq uint64 `json:"last_seq"`
	Head    string `json:"head"`
	// Repaired counts unfinished writes that the log has closed off itself.
	Repaired int       `json:"repaired"`
	Problems []Problem `json:"problems"`
	// Unwitnessed: nothing outside the log knows where it ends. It was begun
	// before there were witnesses, or with another one.
	Unwitnessed bool `json:"unwitnessed,omitempty"`
	// Gone: the oldest entries are no longer there, which a summary covers.
	Gone *Gone `json:"gone,omitempty"`
	// ClosedBy holds the summary of the one file that was verified.
	ClosedBy *Holder `json:"closed_by,omitempty"`
	// More counts problems past the first thousand, which are not listed.
	More int `json:"more,omitempty"`
}

// Holder is an entry that holds a summary.
type Holder struct {
	Seq  uint64 `json:"seq"`
	Path string `json:"path"` // of its file
}

// Gone are all entries up to Last, the last one of a closed segment.
type Gone struct {
	Segment
	By Holder `json:"by"`
	// Pruned is the entry that records their deletion, or 0: they were moved
	// or deleted by other means.
	Pruned uint64 `json:"pruned,omitempty"`
}

// String returns it as one sentence for people.
func (g *Gone) String() string {
	how := "no entry says who removed them"
	if g.Pruned > 0 {
		how = fmt.Sprintf("entry %d records that they were deleted", g.Pruned)
	}
	const minute = "2006-01-02 15:04"
	return fmt.Sprintf("entries 1 to %d are no longer here: entry %d in %s holds the summary of the last closed segment (%s, entries %d to %d, %s to %s UTC, last hash %s); %s",
		g.Last, g.By.Seq, g.By.Path, g.File, g.First, g.Last, g.From.UTC().Format(minute), g.To.UTC().Format(minute), g.LastHash, how)
}

// OK reports whether nothing is wrong.
func (r Report) OK() bool { return len(r.Problems) == 0 }
