package patch

import (
	"context"
	"io/fs"
	"os"
)

// Made is what a diff makes of one file, with its contents. Before is nil for
// a file that is new, After for one that is deleted.
type Made struct {
	FileChange
	Before, After *string
	// Exec says that the diff decides about the executable bit: it changes it,
	// or makes a new file with it.
	Exec bool
}

type original struct {
	data string
	mode fs.FileMode
}

// Preview is a dry run that also returns the contents of the files before and
// after, for the caller to write. Made is empty if there are conflicts.
func Preview(ctx context.Context, root *os.Root, diff string, opts Options) (Result, []Made, error) {
	d, err := Parse(diff, opts.MaxBytes)
	if err != nil {
		return Result{}, nil, err
	}
	opts.originals = map[string]original{}
	p, err := d.plan(ctx, root, opts)
	if err != nil {
		return Result{}, nil, err
	}
	r := p.result(true)
	if !r.OK {
		return r, nil, nil
	}
	final := map[string]*outcome{}
	for _, out := range p.outcomes {
		final[out.path] = out
	}
	var made []Made
	for _, f := range r.Files {
		m := Made{FileChange: f}
		from := f.Path
		if f.OldPath != "" {
			from = f.OldPath
		}
		old, there := opts.originals[from]
		if there && f.Status != StatusCreated {
			m.Before = &old.data
		}
		if f.Status != StatusDeleted {
			out := final[f.Path]
			m.After = &out.data
			m.Exec = (out.mode&0o100 != 0) != (m.Before != nil && f.Status != StatusCopied && old.mode&0o100 != 0)
		}
		made = append(made, m)
	}
	return r, made, nil
}

// read returns what counts as the contents of a file that stat has seen.
func (p *plan) read(name string, seen fs.FileInfo) (data string, err error) {
	if text, ok := p.opts.Live[name]; ok && seen.Mode().IsRegular() {
		data, err = text, p.budget.take(int64(len(text)))
	} else {
		data, err = p.disk.read(name, seen, p.budget)
	}
	if err == nil && p.opts.originals != nil {
		p.opts.originals[name] = original{data, seen.Mode()}
	}
	return data, err
}
