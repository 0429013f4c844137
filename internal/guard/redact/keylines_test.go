package redact

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
)

// keyFiles are private keys as programs write them, by line.
func keyFiles(t *testing.T) map[string][]string {
	t.Helper()
	big, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	small, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := x509.MarshalECPrivateKey(small)
	if err != nil {
		t.Fatal(err)
	}
	lines := func(kind string, der []byte, width int) []string {
		text := string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		all := strings.Split(strings.TrimSpace(text), "\n")
		body := strings.Join(all[1:len(all)-1], "")
		out := []string{all[0]}
		for ; body != ""; body = body[min(width, len(body)):] {
			out = append(out, body[:min(width, len(body))])
		}
		return append(out, all[len(all)-1])
	}
	return map[string][]string{
		"RSA":            lines("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(big), 64),
		"EC":             lines("EC PRIVATE KEY", ec, 64),
		"OpenSSH width":  lines("OPENSSH PRIVATE KEY", x509.MarshalPKCS1PrivateKey(big), 70),
		"76 characters":  lines("PRIVATE KEY", x509.MarshalPKCS1PrivateKey(big), 76),
		"encrypted, 64s": lines("ENCRYPTED PRIVATE KEY", x509.MarshalPKCS1PrivateKey(big), 64),
	}
}

// dressings are what tools put around the lines that they show.
var dressings = map[string]func(file string, n int, line string) string{
	"bare":         func(_ string, _ int, l string) string { return l },
	"cat -n":       func(_ string, n int, l string) string { return fmt.Sprintf("%6d\t%s", n, l) },
	"view":         func(_ string, n int, l string) string { return fmt.Sprintf("%d. %s", n, l) },
	"grep":         func(f string, n int, l string) string { return fmt.Sprintf("%s:%d:%s", f, n, l) },
	"grep context": func(f string, n int, l string) string { return fmt.Sprintf("%s-%d-%s", f, n, l) },
	"rg":           func(_ string, n int, l string) string { return fmt.Sprintf("%d:%s", n, l) },
	"diff":         func(_ string, _ int, l string) string { return "+" + l },
	"quoted":       func(_ string, _ int, l string) string { return `  "` + l + `",` },
	"comment":      func(_ string, _ int, l string) string { return "// " + l },
	"hash":         func(_ string, _ int, l string) string { return "# " + l },
	"block":        func(_ string, _ int, l string) string { return " * " + l },
	"CRLF":         func(_ string, _ int, l string) string { return l + "\r" },
}

// TestKeyLines shows every part of two lines or more of a private key, without
// its header, and looks for parts of it in the result.
func TestKeyLines(t *testing.T) {
	r := New(Options{}).Results()
	for kind, lines := range keyFiles(t) {
		for dress, put := range dressings {
			t.Run(kind+", "+dress, func(t *testing.T) {
				for from := 1; from < len(lines)-2; from++ {
					for _, to := range []int{from + 2, len(lines) - 1, len(lines)} {
						checkPart(t, r, lines, from, to, put)
					}
				}
			})
		}
	}
}

func checkPart(t *testing.T, r *Redactor, lines []string, from, to int, put func(string, int, string) string) {
	t.Helper()
	var text strings.Builder
	text.WriteString("what the tool says first\n")
	for i := from; i < to; i++ {
		text.WriteString(put("dir/server.key", i+1, lines[i]) + "\n")
	}
	text.WriteString("and last\n")
	out, hits := r.String(text.String())
	for i := from; i < to; i++ {
		if !strings.Contains(lines[i], "-----") && len(lines[i]) > 8 && strings.Contains(out, lines[i]) {
			t.Fatalf("lines %d to %d of %d: line %d is shown in\n%s", from+1, to, len(lines), i+1, out)
		}
	}
	if hits == 0 || !strings.HasPrefix(out, "what the tool says first\n") || !strings.HasSuffix(out, "and last\n") {
		t.Fatalf("%d hits in\n%s", hits, out)
	}
	if again, n := r.String(out); again != out || n != 0 {
		t.Fatalf("redacted again it becomes\n%s", again)
	}
	for _, size := range []int{1, 7, 64, 65, 100} {
		st, streamed := r.NewStream(), ""
		for at := 0; at < text.Len(); at += size {
			streamed += st.Write(text.String()[at:min(text.Len(), at+size)])
		}
		if streamed += st.Flush(); streamed != out {
			t.Fatalf("in pieces of %d:\n%s\nwant\n%s", size, streamed, out)
		}
	}
}

// TestKeyLinesLeaveTheRest holds that public keys and other text stay.
func TestKeyLinesLeaveTheRest(t *testing.T) {
	var body []byte // the same in every run: in other ones a token may be found
	for i := range 40 {
		sum := sha256.Sum256([]byte{1, byte(i)})
		body = append(body, sum[:]...)
	}
	cert := strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: body})))
	sums := ""
	for i := range 20 {
		sum := sha256.Sum256([]byte{byte(i)})
		sums += hex.EncodeToString(sum[:]) + "\n"
	}
	for name, text := range map[string]string{
		"certificate":         "first\n" + cert + "\nlast\n",
		"two certificates":    cert + "\n" + cert + "\n",
		"numbered":            "1. " + strings.ReplaceAll(cert, "\n", "\n2. "),
		"public key":          strings.ReplaceAll(cert, "CERTIFICATE", "PUBLIC KEY"),
		"PGP message":         strings.Replace(strings.ReplaceAll(cert, "CERTIFICATE", "PGP MESSAGE"), "\n", "\nVersion: 2\n\n", 1),
		"checksums":           sums,
		"checksums and names": strings.ReplaceAll(sums, "\n", "  file.tar.gz\n"),
		"words":               strings.Repeat("one\ntwo\nthree\n", 50),
		"one line":            strings.Split(cert, "\n")[3] + "\n",
		"footer alone":        "a line of text\n-----END RSA PRIVATE KEY-----\n",
	} {
		t.Run(name, func(t *testing.T) {
			if out, n := New(Options{}).Results().String(text); out != text || n != 0 {
				t.Errorf("%d hits in\n%s", n, out)
			}
		})
	}
}
