package memory

import (
	"context"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// learned is what one worker has made of its share of the files.
type learned struct {
	terms  numbering // its own
	files  []learnedFile
	scan   scanner
	counts []uint32 // of the section at hand, by term
	used   []uint32 // the terms of it
}

type learnedFile struct {
	name     name
	file     file
	sections []learnedSection
}

type learnedSection struct {
	entry    entry
	postings []posting // section holds the term's number
}

// learn reads files and adds them to the index. Reading and taking apart is
// done by all processors, each with its own numbers for terms. Only the
// translation of these numbers is done by one goroutine.
func (x *Index) learn(ctx context.Context, roots []*os.Root, jobs []found) error {
	parts := make([]learned, min(runtime.GOMAXPROCS(0), len(jobs)))
	var next atomic.Int64
	var working sync.WaitGroup
	for i := range parts {
		working.Go(func() {
			l := &parts[i]
			var buf []byte
			for ctx.Err() == nil {
				k := int(next.Add(1)) - 1
				if k >= len(jobs) {
					return
				}
				j := jobs[k]
				f := learnedFile{name: j.name, file: file{state: j.state, indexed: time.Now(), seen: x.round}}
				text, ok := read(roots[j.name.folder], j.name.path, buf)
				if buf = text; ok {
					f.sections = l.file(j.name, string(text))
				}
				f.file.failed = !ok
				l.files = append(l.files, f)
			}
		})
	}
	working.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i := range parts {
		x.adopt(&parts[i])
	}
	return nil
}

// file takes a file apart. A heading counts twice, and the file's name once
// with its first section.
func (l *learned) file(n name, text string) []learnedSection {
	var out []learnedSection
	for i, s := range split(text) {
		l.used = l.used[:0]
		length := 0
		count := func(weight uint32) func([]byte) {
			return func(term []byte) {
				length++
				number := l.terms.of(term)
				if int(number) == len(l.counts) {
					l.counts = append(l.counts, 0)
				}
				if l.counts[number] == 0 {
					l.used = append(l.used, number)
				}
				l.counts[number] += weight
			}
		}
		l.scan.each(s.text, false, count(1))
		if s.heading != "" {
			l.scan.each(s.heading, false, count(2))
		}
		if i == 0 {
			l.scan.each(strings.TrimSuffix(n.path, path.Ext(n.path)), false, count(1))
		}
		postings := make([]posting, len(l.used))
		for k, number := range l.used {
			postings[k] = posting{number, l.counts[number]}
			l.counts[number] = 0
		}
		out = append(out, learnedSection{entry{name: n, heading: s.heading, first: s.first, last: s.last, length: int32(length)}, postings})
	}
	return out
}

// adopt adds what a worker has learned. The caller holds mu.
func (x *Index) adopt(l *learned) {
	numbers := make([]uint32, l.terms.count())
	for i := range numbers {
		t := l.terms.term(i)
		n, ok := x.terms[t]
		if !ok {
			n = uint32(len(x.postings))
			x.terms[t] = n
			x.postings = append(x.postings, nil)
		}
		numbers[i] = n
	}
	for i := range l.files {
		f := &l.files[i]
		known := f.file
		known.first, known.count = uint32(len(x.sections)), uint32(len(f.sections))
		x.files[f.name] = &known
		if known.failed {
			x.unread++
		}
		for _, s := range f.sections {
			at := uint32(len(x.sections))
			x.sections = append(x.sections, s.entry)
			x.live++
			x.length += int64(s.entry.length)
			for _, p := range s.postings {
				t := numbers[p.section]
				x.postings[t] = append(x.postings[t], posting{at, p.weight})
			}
		}
	}
}
