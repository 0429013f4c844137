package fleet

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Invitation is what a line to join with says. It is a secret until it is used up.
type Invitation struct {
	ID   string   `json:"id"`
	URLs []string `json:"urls"`
	// Pin is the SHA-256 of the CA's certificate, which the server sends; CA is the
	// certificate itself, in PEM, where the server does not. With neither, the
	// system's CAs count.
	Pin  string `json:"pin,omitempty"`
	CA   string `json:"ca,omitempty"`
	JWT  string `json:"jwt"`
	Seed string `json:"seed"`
}

const invitationPrefix = "cbfleet1."

// Line is the invitation as a line to paste.
func (i Invitation) Line() (string, error) {
	data, err := json.Marshal(i)
	return invitationPrefix + base64.RawURLEncoding.EncodeToString(data), err
}

// InvitationLine returns the invitation in a pasted text. The text may have line breaks
// and quotes, and begin with other output of `fleet invite`.
func InvitationLine(pasted string) string {
	line := strings.Join(strings.Fields(pasted), "")
	if i := strings.Index(line, invitationPrefix); i > 0 {
		line = line[i:]
	}
	return strings.Trim(line, "\"'`")
}

// ParseInvitation reads a line. Its errors do not repeat it.
func ParseInvitation(line string) (Invitation, error) {
	var i Invitation
	bad := &bridge.Error{Code: bridge.CodeInvalid, Message: "this is no invitation to a fleet, or only a part of one",
		Remedy: "Copy the whole line that `copilot-bridge fleet invite` printed; it begins with " + invitationPrefix + "."}
	text, ok := strings.CutPrefix(InvitationLine(line), invitationPrefix)
	if !ok {
		return i, bad
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(data, &i) != nil || i.ID == "" || i.JWT == "" || i.Seed == "" || len(i.URLs) == 0 {
		return i, bad
	}
	return i, nil
}

// Pin is the SHA-256 of a certificate, in hexadecimal.
func Pin(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// errNotPinned is the end of a connection to a server that is not the fleet's.
var errNotPinned = errors.New("the server shows another certificate than the one that the invitation names")

// pinned accepts a server for host whose chain has the CA with that pin, and hands
// the CA out. Go's own verification is off, since the CA is not known before; this
// one takes its place.
func pinned(pin, host string, found func(ca *x509.Certificate)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			for _, ca := range state.PeerCertificates {
				if Pin(ca) != pin || !ca.IsCA {
					continue
				}
				roots := x509.NewCertPool()
				roots.AddCert(ca)
				if _, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
					return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
				}
				found(ca)
				return nil
			}
			return errNotPinned
		}}
}

// TLS is the configuration for a server whose certificate a CA in PEM has signed;
// "" means the system's CAs.
func TLS(ca string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if ca == "" {
		return config, nil
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the certificate of the fleet's CA cannot be read"}
	}
	return config, nil
}

// EncodeCertificate is a certificate in PEM.
func EncodeCertificate(c *x509.Certificate) string {
	var out bytes.Buffer
	_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a buffer takes everything
	return out.String()
}
