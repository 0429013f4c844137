package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// cluster is three NATS servers, as an organisation has them: an operator, an
// account for the fleet with a signing key, and TLS with its own CA.
type cluster struct {
	t       *testing.T
	hosts   []*fleettest.Host
	servers []*fleettest.Process
	urls    []string
	// The files for fleet up, in the home of the first host.
	creds, accountKey, ca string
}

const (
	clientPort = "4222"
	routePort  = "6222"
)

// startCluster starts a server on each of the hosts, whose files it writes, and
// waits until they have found each other.
func startCluster(t *testing.T, hosts ...*fleettest.Host) *cluster {
	t.Helper()
	c := &cluster{t: t, hosts: hosts, servers: make([]*fleettest.Process, len(hosts))}
	auth := c.writeAccounts()
	authority, authorityKey := c.newCertificate(nil, nil, "test CA")
	for i, h := range hosts {
		dir := c.dir(h)
		writeFile(t, filepath.Join(dir, "ca.pem"), encodePEM("CERTIFICATE", authority.Raw))
		cert, key := c.newCertificate(authority, authorityKey, h.Address)
		raw, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, "cert.pem"), encodePEM("CERTIFICATE", cert.Raw))
		writeFile(t, filepath.Join(dir, "key.pem"), encodePEM("EC PRIVATE KEY", raw))
		writeFile(t, filepath.Join(dir, "nats.conf"), c.config(h)+auth)
		c.urls = append(c.urls, "tls://"+net.JoinHostPort(h.Address, clientPort))
		c.start(i)
	}
	c.ca = filepath.Join(c.dir(hosts[0]), "ca.pem")
	c.waitUntilReady(hosts[0])
	return c
}

func (c *cluster) dir(h *fleettest.Host) string { return filepath.Join(h.Home, "nats") }

// start starts the server of a host, again after it was killed.
func (c *cluster) start(i int) {
	c.t.Helper()
	dir := c.dir(c.hosts[i])
	p, err := c.hosts[i].Start(dir, natsServer, "-c", filepath.Join(dir, "nats.conf"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.servers[i] = p
}

// config is the configuration of a host's server without its accounts.
func (c *cluster) config(h *fleettest.Host) string {
	dir := c.dir(h)
	files := fmt.Sprintf("cert_file: %q, key_file: %q, ca_file: %q", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem"))
	var routes []string
	for _, o := range c.hosts {
		routes = append(routes, fmt.Sprintf("%q", "nats-route://"+net.JoinHostPort(o.Address, routePort)))
	}
	return fmt.Sprintf("server_name: %s\nlisten: %q\ntls { %s, timeout: 5 }\njetstream { store_dir: %q }\ncluster { name: test, listen: %q, routes: [%s], tls { %s, timeout: 5, verify: true } }\n",
		h.Name, net.JoinHostPort(h.Address, clientPort), files, filepath.Join(dir, "data"), net.JoinHostPort(h.Address, routePort), strings.Join(routes, ", "), files)
}

// writeAccounts makes the operator and its accounts, writes the files for fleet
// up, and returns the servers' part about it.
func (c *cluster) writeAccounts() string {
	t := c.t
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	newKey := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		key, err := create()
		check(err)
		public, err := key.PublicKey()
		check(err)
		return key, public
	}
	operator, operatorID := newKey(nkeys.CreateOperator)
	_, systemID := newKey(nkeys.CreateAccount)
	_, accountID := newKey(nkeys.CreateAccount)
	signing, signingID := newKey(nkeys.CreateAccount)
	user, userID := newKey(nkeys.CreateUser)

	o := jwt.NewOperatorClaims(operatorID)
	o.Name, o.SystemAccount = "test", systemID
	operatorJWT, err := o.Encode(operator)
	check(err)
	system := jwt.NewAccountClaims(systemID)
	system.Name = "SYS"
	systemJWT, err := system.Encode(operator)
	check(err)
	account := jwt.NewAccountClaims(accountID)
	account.Name = "FLEET"
	account.SigningKeys.Add(signingID)
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	accountJWT, err := account.Encode(operator)
	check(err)

	u := jwt.NewUserClaims(userID)
	u.Name, u.IssuerAccount = "hub", accountID
	userJWT, err := u.Encode(signing)
	check(err)
	userSeed, err := user.Seed()
	check(err)
	creds, err := jwt.FormatUserConfig(userJWT, userSeed)
	check(err)
	signingSeed, err := signing.Seed()
	check(err)
	dir := c.dir(c.hosts[0])
	c.creds, c.accountKey = filepath.Join(dir, "hub.creds"), filepath.Join(dir, "account.nk")
	writeFile(t, c.creds, string(creds))
	writeFile(t, c.accountKey, string(signingSeed))
	return fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload { %s: %s, %s: %s }\n", operatorJWT, systemID, systemID, systemJWT, accountID, accountJWT)
}

// newCertificate makes a certificate of a CA, or without one its own.
func (c *cluster) newCertificate(parent *x509.Certificate, parentKey *ecdsa.PrivateKey, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		c.t.Fatal(err)
	}
	want := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if parent == nil {
		want.IsCA, want.KeyUsage, want.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		parent, parentKey = want, key
	} else {
		want.IPAddresses = []net.IP{net.ParseIP(name)}
	}
	raw, err := x509.CreateCertificate(rand.Reader, want, parent, &key.PublicKey, parentKey)
	if err != nil {
		c.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		c.t.Fatal(err)
	}
	return cert, key
}

func encodePEM(kind string, data []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
}

// waitUntilReady waits until the cluster stores on three servers, seen from a
// host.
func (c *cluster) waitUntilReady(h *fleettest.Host) {
	c.t.Helper()
	eventually(c.t, time.Minute, "the NATS servers do not find each other", func() string {
		nc, err := c.connect(h)
		if err != nil {
			return err.Error()
		}
		defer nc.Close()
		js, err := nc.JetStream(nats.MaxWait(5 * time.Second))
		if err != nil {
			return err.Error()
		}
		if _, err := js.AddStream(&nats.StreamConfig{Name: "probe", Replicas: len(c.hosts)}); err != nil {
			return err.Error()
		}
		if err := js.DeleteStream("probe"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// dialer connects from a host.
type dialer struct{ *fleettest.Host }

// connect connects a client in the test with the rights of the hub.
func (c *cluster) connect(h *fleettest.Host) (*nats.Conn, error) {
	return nats.Connect(strings.Join(c.urls, ","), nats.UserCredentials(c.creds), nats.RootCAs(c.ca), nats.SetCustomDialer(dialer{h}),
		nats.Secure(&tls.Config{MinVersion: tls.VersionTLS13}), nats.ReconnectWait(100*time.Millisecond))
}

// TestCluster makes sure that the cluster is one: what it has stored outlives any
// one of its servers.
func TestCluster(t *testing.T) {
	w := fleettest.NewNetwork(t, 3, seedOf(t))
	w.Slow(2*time.Millisecond, 0)
	c := startCluster(t, w.Host(1), w.Host(2), w.Host(3))
	nc, err := c.connect(w.Host(1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if i != 0 {
			c.servers[i].Kill()
			<-c.servers[i].Ended
		}
		eventually(t, time.Minute, "a message is not stored", func() string {
			if _, err := js.Publish("s", []byte("x"), nats.MsgId(fmt.Sprint(i))); err != nil {
				return err.Error()
			}
			return ""
		})
		if i != 0 {
			c.start(i)
		}
	}
	if info, err := js.StreamInfo("S"); err != nil || info.State.Msgs != 3 {
		t.Error(info, err)
	}
}

// TestFleetOnCluster does a plan over a cluster of which one server after another
// is killed and comes back, while the plan is carried out.
func TestFleetOnCluster(t *testing.T) {
	seed := seedOf(t)
	net := fleettest.NewNetwork(t, 8, seed)
	net.Slow(2*time.Millisecond, 0)
	c := startCluster(t, net.Host(6), net.Host(7), net.Host(8))
	home := net.Host(1).Home
	for from, name := range map[*string]string{&c.creds: "hub.creds", &c.accountKey: "account.nk", &c.ca: "ca.pem"} {
		data, err := os.ReadFile(*from)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(home, name), string(data))
	}
	f := newFleet(t, net, "--nats", strings.Join(c.urls, ","), "--creds", filepath.Join(home, "hub.creds"), "--account-key", filepath.Join(home, "account.nk"), "--ca", filepath.Join(home, "ca.pem"))
	f.prepare(makeWork(mathrand.New(mathrand.NewPCG(seed, 4)), tasks(t)))
	run := f.begin(f.givers[1])
	done := func() int { return strings.Count(run.Out.String(), string(orchestrate.TaskCompleted)) }
	killed := 0
	for i := range c.servers {
		from := done()
		eventually(t, 5*time.Minute, "the run does not go on", func() string {
			if n := done(); n < from+2 && run.Running() {
				return fmt.Sprintf("%d tasks done\n%s", n, run.Err)
			}
			return ""
		})
		if !run.Running() {
			break // a short plan
		}
		killed++
		c.servers[i].Kill()
		<-c.servers[i].Ended
		t.Logf("%s killed after %d tasks", c.hosts[i].Name, done())
		<-time.After(3 * time.Second) // the others choose new leaders
		c.start(i)
		c.waitUntilReady(net.Host(6 + (i+1)%3))
	}
	select {
	case <-run.Ended:
	case <-time.After(10 * time.Minute):
		t.Fatalf("the run does not end:\n%s", run.Err)
	}
	if killed == 0 {
		t.Error("the run had ended before a server was killed")
	}
	f.checkRun(f.givers[1], run)
	f.end()
}
