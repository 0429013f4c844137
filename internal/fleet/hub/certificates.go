package hub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

const (
	caLasts     = 20 * 365 * 24 * time.Hour
	serverLasts = 365 * 24 * time.Hour
	renewBefore = 60 * 24 * time.Hour
	clockSkew   = time.Hour
)

// authority is the fleet's own CA. It signs nothing but the server's certificate.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func openAuthority(dir, name string) (*authority, error) {
	file := filepath.Join(dir, "ca.pem")
	cert, key, err := readPair(file)
	if errors.Is(err, fs.ErrNotExist) {
		template := &x509.Certificate{Subject: pkix.Name{CommonName: "Copilot Bridge fleet " + name}, NotAfter: time.Now().Add(caLasts),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign}
		cert, key, err = makePair(file, template, nil)
	}
	return &authority{dir: dir, cert: cert, key: key}, err
}

// server is the certificate of the server, with the CA's behind it. It is made
// anew if it ends soon or lacks a name.
func (a *authority) server(names []string) (*tls.Certificate, error) {
	file := filepath.Join(a.dir, "server.pem")
	cert, key, err := readPair(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil || time.Until(cert.NotAfter) < renewBefore || cert.CheckSignatureFrom(a.cert) != nil || !slices.Equal(namesOf(cert), names) {
		template := &x509.Certificate{Subject: pkix.Name{CommonName: "Copilot Bridge fleet server"}, NotAfter: time.Now().Add(serverLasts),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		for _, name := range names {
			if ip := net.ParseIP(name); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
			} else {
				template.DNSNames = append(template.DNSNames, name)
			}
		}
		if cert, key, err = makePair(file, template, a); err != nil {
			return nil, err
		}
	}
	return &tls.Certificate{Certificate: [][]byte{cert.Raw, a.cert.Raw}, PrivateKey: key, Leaf: cert}, nil
}

func namesOf(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	slices.Sort(names)
	return names
}

// serverNames are under what the server may be reached, sorted: loopback, where it
// listens, the machine's name and addresses, and extra ones.
func serverNames(host string, extra []string) []string {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, extra...)
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		names = append(names, host)
	}
	if own, err := os.Hostname(); err == nil {
		names = append(names, own)
	}
	names = append(names, addresses()...)
	for i, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			names[i] = ip.String()
		} else {
			names[i] = strings.ToLower(name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

// addresses are those of this machine that others can reach.
func addresses() (out []string) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, address := range list {
		if n, ok := address.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out
}

// makePair makes a key and a certificate, signed by a, or by itself. Both go into
// one file, so that they always belong together.
func makePair(file string, template *x509.Certificate, a *authority) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	template.NotBefore = time.Now().Add(-clockSkew)
	parent, signer := template, key
	if a != nil {
		parent, signer = a.cert, a.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	text := fleet.EncodeCertificate(cert) + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	return cert, key, durable.WriteFile(file, []byte(text), 0o600)
}

func readPair(file string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	data, err := durable.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, nil, damaged(file)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, damaged(file)
	}
	return pair.Leaf, key, nil
}
