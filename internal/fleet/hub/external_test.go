package hub_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/hub"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// cluster is a NATS cluster of others, with an account for the fleet.
type cluster struct {
	servers []*server.Server
	urls    []string
	dir     string // ca.pem, user.creds, account.nk, signing.nk, scoped.nk, other.nk
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir()}
	cert := c.certificate(t)
	operator, system, account, signing, scoped, other := newKey(t, nkeys.CreateOperator), newKey(t, nkeys.CreateAccount), newKey(t, nkeys.CreateAccount),
		newKey(t, nkeys.CreateAccount), newKey(t, nkeys.CreateAccount), newKey(t, nkeys.CreateAccount)
	claims := jwt.NewAccountClaims(account.public)
	claims.SigningKeys.Add(signing.public)
	scope := jwt.NewUserScope()
	scope.Key = scoped.public
	claims.SigningKeys.AddScopedSigner(scope)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	resolver := &server.MemAccResolver{}
	for _, a := range []*jwt.AccountClaims{claims, jwt.NewAccountClaims(system.public)} {
		token, err := a.Encode(operator.KeyPair)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolver.Store(a.Subject, token); err != nil {
			t.Fatal(err)
		}
	}
	token, err := jwt.NewOperatorClaims(operator.public).Encode(operator.KeyPair)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := jwt.DecodeOperatorClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	user := newKey(t, nkeys.CreateUser)
	if token, err = jwt.NewUserClaims(user.public).Encode(account.KeyPair); err != nil {
		t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(token, user.seed)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"user.creds": creds, "account.nk": account.seed, "signing.nk": signing.seed, "scoped.nk": scoped.seed, "other.nk": other.seed} {
		if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	routes := freePorts(t, n)
	for i := range n {
		o := &server.Options{ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
			TrustedOperators: []*jwt.OperatorClaims{trusted}, AccountResolver: resolver, SystemAccount: system.public,
			TLS: true, TLSTimeout: 5, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}}
		if n > 1 {
			port, err := strconv.Atoi(routes[i].Port())
			if err != nil {
				t.Fatal(err)
			}
			o.Cluster, o.Routes = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}, routes
		}
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		c.servers = append(c.servers, s)
	}
	for _, s := range c.servers {
		fleettest.Wait(t, "the server", func() bool { return s.ReadyForConnections(time.Second) })
		c.urls = append(c.urls, "tls://"+s.Addr().String())
	}
	fleettest.Wait(t, "the cluster", func() bool {
		return n == 1 || slices.ContainsFunc(c.servers, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n })
	})
	return c
}

// freePorts finds ports that the servers of a cluster can know of each other
// before they start.
func freePorts(t *testing.T, n int) (routes []*url.URL) {
	t.Helper()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		routes = append(routes, &url.URL{Scheme: "nats", Host: listener.Addr().String()})
	}
	return routes
}

type pair struct {
	nkeys.KeyPair
	public string
	seed   []byte
}

func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) (p pair) {
	t.Helper()
	var err error
	if p.KeyPair, err = create(); err != nil {
		t.Fatal(err)
	}
	if p.public, err = p.PublicKey(); err != nil {
		t.Fatal(err)
	}
	if p.seed, err = p.Seed(); err != nil {
		t.Fatal(err)
	}
	return p
}

// certificate makes the servers' certificate, which is its own CA.
func (c *cluster) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func (c *cluster) options(dir, key string) hub.Options {
	return hub.Options{Dir: filepath.Join(dir, "hub"), CoordinatorDir: filepath.Join(dir, "coordinator"),
		External: &hub.External{URLs: c.urls[:1], Creds: filepath.Join(c.dir, "user.creds"), AccountKey: filepath.Join(c.dir, key), CA: filepath.Join(c.dir, "ca.pem")}}
}

// A fleet on a server of others, by the account's key or a signing key.
func TestExternalServer(t *testing.T) {
	c := newCluster(t, 1)
	for _, key := range []string{"account.nk", "signing.nk"} {
		t.Run(key, func(t *testing.T) {
			f := &fleettest.Fleet{Dir: t.TempDir()}
			var err error
			if f.Hub, err = hub.Up(t.Context(), c.options(f.Dir, key)); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := f.Hub.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			f.Coordinator = f.Connect(t, "coordinator")
			w := f.Worker(t, "worker-"+strings.TrimSuffix(key, ".nk"))
			if _, err := w.Hello(t.Context(), fleet.Hello{}); err != nil {
				t.Error(err)
			}
			if lasts := time.Until(time.Unix(rightOf(t, f, w.Member.Name).Expires, 0)); lasts > time.Hour+time.Second {
				t.Errorf("the right lasts %s, and nobody can take it back", lasts)
			}
			if _, err := fleet.Remove(t.Context(), f.Coordinator, w.Member.Name); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Hello(t.Context(), fleet.Hello{}); bridge.CodeOf(err) != bridge.CodeDenied {
				t.Errorf("hello of a removed worker: %v", err)
			}
		})
	}
	for key, want := range map[string]string{"scoped.nk": "does not accept", "other.nk": "does not accept", "user.creds": "no seed of an account"} {
		if _, err := hub.Up(t.Context(), c.options(t.TempDir(), key)); bridge.CodeOf(err) != bridge.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
	plain := c.options(t.TempDir(), "account.nk")
	plain.External.URLs = []string{"nats://127.0.0.1:4222"}
	if _, err := hub.Up(t.Context(), plain); bridge.CodeOf(err) != bridge.CodeInvalid || !strings.Contains(err.Error(), "tls://") {
		t.Errorf("without TLS: %v", err)
	}
}

// A fleet is not begun on a cluster that would keep less of it than it could.
func TestClusterLacksAServer(t *testing.T) {
	t.Parallel() // it waits for elections
	c := newCluster(t, 2)
	h, err := hub.Up(t.Context(), c.options(t.TempDir(), "account.nk"))
	if err == nil {
		err = h.Close(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "fewer than three servers") {
		t.Errorf("a cluster of two was taken: %v", err)
	}
}

// In a cluster each stream is on three servers, and the fleet goes on without one
// of them.
func TestCluster(t *testing.T) {
	t.Parallel() // it waits for elections
	c := newCluster(t, 3)
	f := &fleettest.Fleet{Dir: t.TempDir()}
	var err error
	if f.Hub, err = hub.Up(t.Context(), c.options(f.Dir, "account.nk")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Hub.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	f.Coordinator = f.Connect(t, "coordinator")
	stream, err := f.Coordinator.JS.Stream(t.Context(), fleet.StreamTasks)
	if err != nil || stream.CachedInfo().Config.Replicas != 3 {
		t.Fatalf("%+v, %v", stream, err)
	}
	w := f.Worker(t, "worker")
	c.servers[0].Shutdown()
	c.servers[0].WaitForShutdown()
	fleettest.Wait(t, "a hello", func() bool { _, err := w.Hello(t.Context(), fleet.Hello{}); return err == nil })
	if err := f.Hub.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := c.options(f.Dir, "account.nk")
	again.External.URLs = c.urls
	next, err := hub.Up(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	f.Hub = next
	if stream, err = f.Coordinator.JS.Stream(t.Context(), fleet.StreamTasks); err != nil || stream.CachedInfo().Config.Replicas != 3 {
		t.Fatalf("%+v, %v", stream, err)
	}
}
