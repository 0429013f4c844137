// Package memory searches OpenClaw's memory, which is Markdown in a few
// directories: ranked by BM25, section by section, in any script. It writes
// nothing, knows no policy and hides no secrets, which its callers do.
// internal/openclaw uses it where no gateway answers.
package memory

// Folder is a directory with memory in it.
type Folder struct {
	// Dir is the root. It need not exist.
	Dir string
	// Files are single files at its top, Trees directories in which every
	// Markdown file counts; "." is Dir itself.
	Files, Trees []string
	// Flat leaves out the sub-directories of Trees.
	Flat bool
}

// Hit is a section that was found.
type Hit struct {
	File    string  // relative to its folder, with slashes
	Heading string  // with those above it: "Deploy > Staging"; "" before the first
	Line    int     // where the section begins, from 1
	EndLine int     // its last line
	Score   float64 // the higher the better; of use only to compare
	Snippet string
}

// Found is the answer of a search.
type Found struct {
	Hits []Hit // best first
	// Files and Sections are how many were searched, Skipped how many files
	// could not be read or were beyond the limits.
	Files, Sections, Skipped int
}

// Limits.
const (
	MaxFileBytes = 1 << 20 // of one file; the rest is not searched
	maxFiles     = 20_000
	maxDepth     = 16 // of directories
	maxQuery     = 4096
	maxLimit     = 50
)
