package hub

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// The server's certificate stays while it fits, and is made anew where a name is
// missing, it ends soon, or it is of another CA. The CA stays.
func TestServerCertificate(t *testing.T) {
	dir := t.TempDir()
	a, err := openAuthority(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	serial := func(a *authority, names ...string) string {
		t.Helper()
		cert, err := a.server(names)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(a.cert)
		for _, name := range names {
			if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
				t.Error(err)
			}
		}
		return cert.Leaf.SerialNumber.String()
	}
	first := serial(a, "10.1.2.3", "a.example", "fd00::1")
	again, err := openAuthority(dir, "test")
	if err != nil || !again.cert.Equal(a.cert) {
		t.Fatalf("another CA: %v", err)
	}
	if second := serial(again, "10.1.2.3", "a.example", "fd00::1"); second != first {
		t.Error("made anew without a reason")
	}
	third := serial(a, "10.1.2.3", "a.example", "b.example", "fd00::1")
	if third == first {
		t.Error("a name is missing")
	}
	template := &x509.Certificate{NotAfter: time.Now().Add(renewBefore - time.Hour), DNSNames: []string{"a.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	old, _, err := makePair(filepath.Join(dir, "server.pem"), template, a)
	if err != nil {
		t.Fatal(err)
	}
	if serial(a, "a.example") == old.SerialNumber.String() {
		t.Error("ends soon, and stays")
	}
	if err := os.Remove(filepath.Join(dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	if a, err = openAuthority(dir, "test"); err != nil {
		t.Fatal(err)
	}
	serial(a, "a.example")
	for _, file := range []string{"ca.pem", "server.pem"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAuthority(dir, "test"); err == nil {
		t.Error("a damaged CA is replaced in silence")
	}
}

func TestAddresses(t *testing.T) {
	if names := serverNames("0.0.0.0", []string{"Hub.Example", "10.0.0.1"}); !slices.Contains(names, "hub.example") || !slices.Contains(names, "10.0.0.1") ||
		!slices.Contains(names, "127.0.0.1") || slices.Contains(names, "0.0.0.0") || !slices.IsSorted(names) {
		t.Errorf("names %q", names)
	}
	if urls := memberURLs("127.0.0.1", 7422, nil); !slices.Equal(urls, []string{"tls://127.0.0.1:7422"}) {
		t.Errorf("loopback: %q", urls)
	}
	if urls := memberURLs("0.0.0.0", 7422, []string{"hub.example"}); urls[0] != "tls://hub.example:7422" || slices.Contains(urls, "tls://0.0.0.0:7422") {
		t.Errorf("everywhere: %q", urls)
	}
	if urls := memberURLs("::1", 7422, nil); !slices.Equal(urls, []string{"tls://[::1]:7422"}) {
		t.Errorf("IPv6: %q", urls)
	}
	if urls := localURLs("0.0.0.0", 7422); !slices.Equal(urls, []string{"tls://127.0.0.1:7422"}) {
		t.Errorf("local: %q", urls)
	}
}
