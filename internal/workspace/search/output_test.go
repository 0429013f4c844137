package search

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func parse(r io.Reader, limit, around int) ([]Hit, bool, error) {
	all := &gathered{}
	c := &collection{limit: limit, context: around, take: all.take}
	p := &output{found: c, keep: func(file string) bool { return !strings.HasPrefix(file, "secret") }}
	err := p.read(r)
	return all.sorted(), c.truncated, err
}

func TestOutput(t *testing.T) {
	const text = "./b\x001-zero\n2:3:x needle\n\n./c: d\x007:1:a:b\n./c: d: WARNING: stopped searching binary file after match (found \"\\0\" byte around offset 9)\n" +
		"\n./secret\x001:1:needle\n\n./a\x0010:2:é\n"
	want := []Hit{
		{File: "a", Line: 10, Column: 2, Snippet: "é"},
		{File: "b", Line: 2, Column: 3, Snippet: "x needle", Before: []string{"zero"}},
		{File: "c: d", Line: 7, Column: 1, Snippet: "a:b"},
	}
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text))} {
		got, truncated, err := parse(r, 100, 1)
		if err != nil || truncated {
			t.Fatalf("%s: truncated %t, %v", name, truncated, err)
		}
		wantSame(t, got, want)
	}
	for _, broken := range []string{"x", "x\n", "./a\x00\x001:1:x\n", "a\x001:1:x\n", "./a\x00x\n", "./a\x001\n", "./a\x001:x\n", "./a\x001:1\n", "./a\x000:1:x\n", "./a\x001:1:x", "./\x001:1:x\n", "./a\x002:1:x\n1:1:x\n", "./a\nb", "./a\nb\n", "./a\n\n" + strings.Repeat("b\n", maxPath) + "\x001:1:x\n"} {
		if got, _, err := parse(strings.NewReader(broken), 10, 0); !errors.Is(err, errOutput) {
			t.Errorf("%q: got %v, %v", broken, got, err)
		}
	}
	if _, _, err := parse(iotest.ErrReader(io.ErrClosedPipe), 10, 0); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

// Names with line breaks are passed over, whatever they pretend to be.
func TestLineBreaksInNames(t *testing.T) {
	const warning = ": WARNING: stopped searching binary file after match (found \"\\0\" byte around offset 9)\n"
	var text strings.Builder
	for _, name := range []string{"./x\n\n./c", "./x\n9:1:forged", "./secret\n./a", "./x\r", "./\n", "./x\n"} {
		text.WriteString(name + "\x001:1:needle\n3:1:more\n" + name + warning + "\n" + name + "\x002:1:needle\n\n")
	}
	text.WriteString("./b\x002:3:x needle\n")
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text.String()), "by bytes": iotest.OneByteReader(strings.NewReader(text.String()))} {
		got, _, err := parse(r, 100, 1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantSame(t, got, []Hit{{File: "b", Line: 2, Column: 3, Snippet: "x needle"}})
	}
}

func TestLinesLongerThanTheBuffer(t *testing.T) {
	long := strings.Repeat("x", 3*readBytes)
	got, _, err := parse(strings.NewReader("./a\x001:"+"10:"+long+"\n2:1:y\n"), 10, 0)
	if err != nil || len(got) != 2 || !got[0].Cut || len(got[0].Snippet) != maxSnippet || got[1].Snippet != "y" {
		t.Errorf("got %d hits, %v", len(got), err)
	}
}

// A line longer than maxLine neither stops the search nor is kept.
func TestLinesTooLongToHold(t *testing.T) {
	long := io.MultiReader(strings.NewReader("./a\x001:10:"), io.LimitReader(endless{}, 3*maxLine), strings.NewReader("\n2:1:y\n"))
	got, _, err := parse(long, 10, 0)
	if err != nil || len(got) != 2 || got[0].Column != 10 || len(got[0].Snippet) != maxSnippet || got[1].Snippet != "y" {
		t.Errorf("got %d hits, %v", len(got), err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// FuzzOutput: the hits do not depend on how the output arrives.
func FuzzOutput(f *testing.F) {
	for _, seed := range []string{"./a\x001:1:x\n2-y\n\n./b\nc\x003:9:z\r\n", "\n\n", "./a\x00", "./a\x0099999999999999999999:1:x\n", "./a\x001:5:\xff\xfe\n./a: WARNING: x\n"} {
		f.Add(seed, 3, 1)
	}
	f.Fuzz(func(t *testing.T, text string, limit, around int) {
		limit, around = 1+(limit&0xff)%20, (around&0xff)%5
		a, truncatedA, errA := parse(strings.NewReader(text), limit, around)
		b, truncatedB, errB := parse(iotest.HalfReader(strings.NewReader(text)), limit, around)
		if !reflect.DeepEqual(a, b) || truncatedA != truncatedB || !errors.Is(errA, errB) {
			t.Errorf("whole: %+v %t %v\nhalves: %+v %t %v", a, truncatedA, errA, b, truncatedB, errB)
		}
		if len(a) > limit {
			t.Errorf("%d hits, limit %d", len(a), limit)
		}
		for _, h := range a {
			if h.Line < 1 || h.Column < 1 || h.File == "" || strings.HasPrefix(h.File, "secret") || len(h.Before) > around || len(h.After) > around {
				t.Errorf("got %+v", h)
			}
		}
	})
}
