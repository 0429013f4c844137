package shell

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// bashWords asks the real bash what words each text becomes. A text that bash
// does not accept has no entry.
func bashWords(t testing.TB, texts []string, fork bool) map[string][]string {
	t.Helper()
	var in bytes.Buffer
	for _, s := range texts {
		in.WriteString(s)
		in.WriteByte(0)
	}
	open, end := "{", "}"
	if fork { // some errors end the shell
		open, end = "(", ")"
	}
	cmd := exec.Command("bash", "--norc", "--noprofile", "-r", "-c", `
		n=0
		while IFS= read -r -d '' s; do
			set --
			`+open+` if eval "set -- $s" </dev/null; then
				printf '%s\1%s\0' "$n" $#
				for w; do printf '%s\0' "$w"; done
			fi
			`+end+`
			n=$((n+1))
		done
		printf 'end\0'`)
	cmd.Dir = t.TempDir() // empty, so that no wildcard matches anything
	cmd.Env = []string{"LC_ALL=C.UTF-8", "HOME=/home/x", "PATH=/nonexistent"}
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil || !bytes.HasSuffix(out, []byte("end\x00")) {
		t.Fatalf("bash: %v", err)
	}
	got := map[string][]string{}
	fields := strings.Split(string(out), "\x00")
	for len(fields) > 2 {
		var n, count int
		if _, err := fmt.Sscanf(fields[0], "%d\x01%d", &n, &count); err != nil {
			t.Fatalf("%q: %v", fields[0], err)
		}
		got[texts[n]] = fields[1 : 1+count]
		fields = fields[1+count:]
	}
	return got
}

// checkWords compares what we say about texts with what bash makes of them.
func checkWords(t testing.TB, texts []string, fork bool) (static int) {
	t.Helper()
	want := bashWords(t, texts, fork)
	for _, text := range texts {
		a, err := Analyse("set -- " + text)
		words, accepted := want[text]
		if err != nil || !accepted || len(a.Commands) != 1 || len(a.Redirects) > 0 {
			continue
		}
		cmd := a.Commands[0]
		if cmd.Dynamic || strings.Contains(text, "~") || strings.HasSuffix(strings.TrimSpace(text), "&") {
			continue
		}
		static++
		if !slices.Equal(cmd.Words[2:], words) {
			t.Errorf("%q: %q, bash says %q", text, cmd.Words[2:], words)
		}
	}
	return static
}

func randomText(r *rand.Rand, pieces []string, most int) string {
	var b strings.Builder
	for range 1 + r.IntN(most) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// TestWordsAgainstBash is the property that all else rests on: a word that is
// called static is exactly what bash makes of it.
func TestWordsAgainstBash(t *testing.T) {
	sets := map[string][]string{
		"quotes":  {"a", "b", " ", "'", "'", `"`, `"`, `\`, `\`, "\\\n", "x y", "é", "$", "-", "=", ",", ".", "#", "!", "%", "^"},
		"ansi":    {"$'", "'", `\n`, `\x41`, `\x4`, `\x`, `\101`, `\18`, `\7`, `\u41`, `\u0041`, `\U00000041`, `\q`, `\\`, `\'`, `\"`, `"`, "a", "1", "f", `\e`, `\?`, `\cA`, `\0`, `\400`, `\xff`, `\u`},
		"braces":  {"{", "}", ",", "a", "b", "..", "1", "3", "x", "{a,b}", "{1..3}", "\\", "'", `"`, "$", "-", "", "{,}", "{a..c}", "01", "{z..a..2}", "Z", "{b,c}"},
		"globs":   {"*", "?", "[", "]", "a", "!", "^", "-", `\`, "'", `"`, "[a]", " "},
		"mixture": {"a", "{", "}", ",", "'", `"`, `\`, "$'", "*", " ", "\t", "\n", "..", "1", "$", "~", "=", "\\\n", "[", "]", "#", ";", "&", "|", "(", ")", "<", ">", "`", "$x", "$(", "!"},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for name, pieces := range sets {
		fork := name == "mixture"
		rounds := 3000
		if fork {
			rounds = 400
		}
		texts := make([]string, 0, rounds)
		for range rounds {
			texts = append(texts, randomText(r, pieces, 9))
		}
		static := checkWords(t, texts, fork)
		if static < rounds/20 {
			t.Errorf("%s: only %d of %d texts were compared", name, static, rounds)
		}
		t.Logf("%s: %d of %d compared", name, static, rounds)
	}
}
