package patch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator makes random trees, random edits of them, and random damage to
// diffs. All of it follows from the seed.
type generator struct{ *rand.Rand }

func pick[T any](g generator, from []T) T { return from[g.IntN(len(from))] }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

var nameParts = []string{
	"a", "b", "main.go", "x.orig", "x", "with space", " lead", "trail ", "two  spaces", "tab\there", `quo"te`, `back\slash`, `end\`,
	"ünïcödé", "日本", "\xff\xfe", "mixed\xc3(", "new\nline", "-dash", "--- a", "@@ -1 +1 @@", "+plus", "dev", "null", "…", "'single'", "$HOME",
	"2010-07-05 19:41:17", "a.b.c", "cr\rx", "bell\a",
}

func (g generator) name() string {
	depth := 1 + g.IntN(3)
	parts := make([]string, depth)
	for i := range parts {
		parts[i] = pick(g, nameParts)
	}
	return strings.Join(parts, "/")
}

// fresh is a name that fits into the tree: no file on the way, no directory
// at the place.
func (g generator) fresh(tr tree) string {
	for {
		name := g.name()
		if !slices.ContainsFunc(slices.Collect(maps.Keys(tr)), func(other string) bool {
			return other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")
		}) {
			return name
		}
	}
}

// line comes from few words, so that lines repeat and hunks could match in
// several places.
func (g generator) line() string {
	switch g.IntN(12) {
	case 0:
		return ""
	case 1:
		return "}"
	case 2:
		return "\t" + pick(g, []string{"return", "x := 1", " "})
	case 3:
		return pick(g, []string{"-- a comment", "++ more", "@@ -1,2 +3,4 @@", "diff --git a/x b/x", "\\ No newline at end of file", "--- a/x", "+++ b/x"})
	case 4:
		return pick(g, []string{"日本語", "naïve", "\xff\xfe raw", "a\x0bb"})
	case 5, 6:
		return fmt.Sprint("line ", g.IntN(1000))
	}
	return pick(g, []string{"one", "two", "three", "four  ", "five"})
}

func (g generator) lines(n int, end string) []string {
	all := make([]string, n)
	for i := range all {
		e := end
		if end == "mixed" {
			e = pick(g, []string{"\n", "\r\n"})
		}
		all[i] = g.line() + e
	}
	return all
}

func (g generator) text() string {
	end := pick(g, []string{"\n", "\n", "\n", "\r\n", "mixed"})
	text := strings.Join(g.lines(g.IntN(30), end), "")
	if g.chance(20) {
		text = strings.TrimSuffix(text, "\n")
	}
	return text
}

func (g generator) binary() string {
	b := make([]byte, g.IntN(400))
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return "\x00" + string(b)
}

func (g generator) file() entry {
	switch g.IntN(12) {
	case 0:
		return entry{"link", pick(g, []string{"a", "../x", "nowhere/at all", "b\nc", "/etc/hostname"}) + fmt.Sprint(g.IntN(50))}
	case 1:
		return entry{"file", g.binary()}
	case 2:
		return entry{"exec", g.text()}
	}
	return entry{"file", g.text()}
}

func (g generator) tree() tree {
	tr := tree{}
	for range 1 + g.IntN(6) {
		tr[g.fresh(tr)] = g.file()
	}
	return tr
}

func (g generator) editText(text string) string {
	lines := slices.Collect(strings.Lines(text))
	for range 1 + g.IntN(3) {
		at := 0
		if len(lines) > 0 {
			at = g.IntN(len(lines) + 1)
		}
		switch g.IntN(3) {
		case 0:
			lines = slices.Insert(lines, at, g.lines(1+g.IntN(3), "\n")...)
		case 1:
			lines = slices.Delete(lines, at, min(at+1+g.IntN(3), len(lines)))
		case 2:
			if at < len(lines) {
				lines[at] = pick(g, []string{"changed\n", "changed\r\n", strings.TrimSuffix(lines[at], "\n") + " tail\n"})
			}
		}
	}
	// Only the last line may lack its newline.
	for i := range lines {
		if i < len(lines)-1 && !strings.HasSuffix(lines[i], "\n") {
			lines[i] += "\n"
		}
	}
	text = strings.Join(lines, "")
	if g.chance(10) {
		text = strings.TrimSuffix(text, "\n")
	}
	return text
}

func (g generator) editFile(e entry) entry {
	switch {
	case e.kind == "link":
		e.data += "x"
	case strings.HasPrefix(e.data, "\x00"):
		e.data = e.data[:len(e.data)/2] + g.binary() + e.data[len(e.data)/2:]
	default:
		e.data = g.editText(e.data)
	}
	return e
}

// edit changes a tree in the ways that diffs can express.
func (g generator) edit(old tree) tree {
	tr := maps.Clone(old)
	for range 1 + g.IntN(4) {
		names := slices.Sorted(maps.Keys(tr))
		if len(names) == 0 {
			tr[g.fresh(tr)] = g.file()
			continue
		}
		name := pick(g, names)
		e := tr[name]
		switch g.IntN(12) {
		case 0:
			tr[g.fresh(tr)] = g.file()
		case 1:
			delete(tr, name)
		case 2, 3:
			delete(tr, name)
			if g.chance(50) {
				e = g.editFile(e)
			}
			tr[g.fresh(tr)] = e
		case 4:
			if g.chance(50) {
				tr[name] = g.editFile(e)
			}
			tr[g.fresh(tr)] = e
		case 5:
			switch e.kind {
			case "file":
				e.kind = "exec"
			case "exec":
				e.kind = "file"
			}
			tr[name] = e
		case 6:
			tr[name] = g.file() // often of another type
		case 7: // swap
			other := pick(g, names)
			tr[name], tr[other] = tr[other], e
		case 8: // a file becomes a directory
			delete(tr, name)
			tr[name+"/"+pick(g, nameParts)] = e
		case 9: // a directory becomes a file
			if dir, _, ok := strings.Cut(name, "/"); ok {
				maps.DeleteFunc(tr, func(n string, _ entry) bool { return strings.HasPrefix(n, dir+"/") })
				tr[dir] = e
			}
		default:
			tr[name] = g.editFile(e)
		}
	}
	return tr
}

// disturb changes a tree behind the diff's back.
func (g generator) disturb(old tree) tree {
	tr := maps.Clone(old)
	for range 1 + g.IntN(2) {
		names := slices.Sorted(maps.Keys(tr))
		if len(names) == 0 {
			return tr
		}
		name := pick(g, names)
		e := tr[name]
		switch g.IntN(9) {
		case 0:
			delete(tr, name)
		case 1:
			tr[name] = entry{kind: "dir"}
		case 2:
			tr[name] = entry{"link", "elsewhere"}
		case 3:
			tr[g.fresh(tr)] = g.file()
		case 4, 5, 6: // moves hunks
			if e.kind != "link" {
				e.data = strings.Join(g.lines(1+g.IntN(4), "\n"), "") + e.data
				tr[name] = e
			}
		default:
			if e.kind != "link" {
				tr[name] = g.editFile(e)
			}
		}
	}
	return tr
}

// damage changes the text of a diff.
func (g generator) damage(diff string) string {
	lines := slices.Collect(strings.Lines(diff))
	for range 1 + g.IntN(2) {
		if len(lines) < 2 {
			break
		}
		at := g.IntN(len(lines))
		switch g.IntN(14) {
		case 0:
			lines = slices.Delete(lines, at, at+1)
		case 1:
			lines = slices.Insert(lines, at, lines[at])
		case 2: // one byte
			if b := []byte(lines[at]); len(b) > 1 {
				b[g.IntN(len(b)-1)] = pick(g, []byte(" +-@\\ax0/\t\"\x00\xff"))
				lines[at] = string(b)
			}
		case 3: // numbers of a hunk
			for i := at; i < len(lines); i++ {
				if strings.HasPrefix(lines[i], "@@ -") {
					lines[i] = fmt.Sprintf("@@ -%d,%d +%d,%d @@\n", g.IntN(12), g.IntN(9), g.IntN(12), g.IntN(9))
					break
				}
			}
		case 4: // the place of a hunk, which may well be found again
			for i := at; i < len(lines); i++ {
				var a, b, c, d int
				if _, err := fmt.Sscanf(lines[i], "@@ -%d,%d +%d,%d @@", &a, &b, &c, &d); err == nil {
					move := g.IntN(20)
					lines[i] = fmt.Sprintf("@@ -%d,%d +%d,%d @@\n", a+move, b, c+g.IntN(20), d)
					break
				}
			}
		case 5:
			lines = lines[:at]
		case 6: // text between sections
			at = g.sectionStart(lines)
			lines = slices.Insert(lines, at, pick(g, []string{"Only in b: x\n", "\n", "Subject: [PATCH]\n", "-- \n2.39.5\n", "Index: x\n===\n", "diff -u x y\n"}))
		case 7: // a section twice, or moved
			from := g.sectionStart(lines)
			to := from + 1
			for to < len(lines) && !strings.HasPrefix(lines[to], "diff --git") {
				to++
			}
			section := slices.Clone(lines[from:to])
			if g.chance(50) {
				lines = slices.Delete(lines, from, to)
			}
			lines = slices.Insert(lines, g.sectionStart(lines), section...)
		case 8:
			lines[len(lines)-1] = strings.TrimSuffix(lines[len(lines)-1], "\n")
		case 9:
			for i := range lines {
				lines[i] = strings.TrimSuffix(lines[i], "\n") + "\r\n"
			}
		case 10:
			lines = slices.Insert(lines, at, pick(g, []string{"\\ No newline at end of file\n", "\n", " \n", "+x\n", "-x\n", "@@ -1 +1 @@\n", "GIT binary patch\n"}))
		case 11:
			other := g.IntN(len(lines))
			lines[at], lines[other] = lines[other], lines[at]
		case 12: // modes and kinds
			lines = slices.Insert(lines, min(g.sectionStart(lines)+1, len(lines)), pick(g, []string{
				"old mode 100644\nnew mode 100755\n", "new file mode 100644\n", "deleted file mode 100644\n", "new file mode 120000\n",
				"rename from x\nrename to y\n", "copy from a\ncopy to zz\n", "index 123..456 100755\n", "new mode 100755\n", "similarity index 90%\n",
			}))
		case 13:
			lines = append([]string{"From 123 Mon Sep 17 00:00:00 2001\n", "Subject: x\n", "\n", "---\n", " x | 2 +-\n", "\n"}, lines...)
		}
	}
	return strings.Join(lines, "")
}

func (g generator) sectionStart(lines []string) int {
	var starts []int
	for i, l := range lines {
		if strings.HasPrefix(l, "diff --git") || strings.HasPrefix(l, "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ ") {
			starts = append(starts, i)
		}
	}
	if len(starts) == 0 {
		return 0
	}
	return pick(g, starts)
}

// plain turns a git diff into what diff -u would write, as far as that goes.
func (g generator) plain(diff string) string {
	var out strings.Builder
	header := false
	stamp := pick(g, []string{"", "\t2024-01-02 03:04:05.678901234 +0100", "\t2010-07-05 19:41:17", "\t", "  2024-01-02 03:04:05 +0000"})
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "diff --git"):
			header = true
			continue
		case header && strings.HasPrefix(line, "--- "), header && strings.HasPrefix(line, "+++ "):
			if !strings.HasSuffix(line, "\"\n") && !strings.HasSuffix(line, "\t\n") {
				line = strings.TrimSuffix(line, "\n") + stamp + "\n"
			}
		case strings.HasPrefix(line, "@@ -"):
			header = false
		case header:
			continue
		}
		out.WriteString(line)
	}
	return out.String()
}
