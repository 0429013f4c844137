package redact

import (
	"os"
	"strings"
	"testing"
)

// samplesOf reads a file of samples, one a line.
func samplesOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "## ") {
			continue
		}
		if !strings.HasPrefix(line, `{"`) { // in JSON it is an escape
			line = strings.ReplaceAll(line, `\n`, "\n")
		}
		all = append(all, line)
	}
	return all
}

// checkCuts cuts a text in two at every place: the stream gives what the whole
// gives.
func checkCuts(t *testing.T, r *Redactor, in string) {
	t.Helper()
	want, _ := r.String(in)
	for cut := range len(in) {
		if got, _ := cutUp(t, r, in, []int{cut}); got != want {
			t.Fatalf("cut at %d of %q\n got %q\nwant %q", cut, in, got, want)
		}
	}
}

// TestHumanValues holds that a value is hidden for its name, whatever it looks
// like: words, dates, names, short hex.
func TestHumanValues(t *testing.T) {
	r := New(Options{})
	samples := samplesOf(t, "testdata/human.txt")
	missed := 0
	for _, sample := range samples {
		before, rest, _ := strings.Cut(sample, "«")
		value, after, ok := strings.Cut(rest, "»")
		if !ok {
			t.Fatalf("no secret is marked in %q", sample)
		}
		in, want := before+value+after, before+Marker+after
		if out, hits := r.String(in); out != want || hits != 1 {
			missed++
			t.Logf("%q became %q", in, out)
		}
		checkText(t, r, in)
		checkCuts(t, r, in)
	}
	recall := 100 * float64(len(samples)-missed) / float64(len(samples))
	t.Logf("recall %.1f %% of %d samples", recall, len(samples))
	if len(samples) < 300 || recall < 98 {
		t.Errorf("recall %.1f %% of %d samples, want 98 %% of 300", recall, len(samples))
	}
}

// TestNoValues holds that expressions, types, names, placeholders and counts
// stay beside the names of secrets.
func TestNoValues(t *testing.T) {
	r := New(Options{}).Results()
	for _, in := range samplesOf(t, "testdata/source.txt") {
		if out, _ := r.String(in); out != in {
			t.Errorf("%q became %q", in, out)
		}
		checkCuts(t, r, in)
	}
}
