package patch

import "slices"

// Names lists every file that the diff speaks of, each once, without looking at
// any of them: what a guard can be asked about before Apply touches the disk.
// Apply touches no other file. It must be called before Apply.
func (d *Diff) Names() []string {
	var names []string
	seen := map[string]bool{}
	for _, s := range d.sections {
		for _, n := range []string{s.old, s.new} {
			if n != "" && !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	return slices.Clip(names)
}
