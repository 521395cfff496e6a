package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

// authority is Pebble, Let's Encrypt's server for tests, in this process. It asks
// 127.0.0.1 whose any host is.
type authority struct {
	url    string         // of its directory
	file   string         // has the certificate of its HTTPS
	roots  *x509.CertPool // of what it issues
	orders atomic.Int64
	server *httptest.Server
}

// startAuthority starts one that asks at the ports, for certificates that are valid for so long.
func startAuthority(t *testing.T, tlsPort, httpPort string, validity time.Duration) *authority {
	t.Helper()
	for name, value := range map[string]string{"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_AUTHZREUSE": "0", "PEBBLE_WFE_NONCEREJECT": "0"} {
		t.Setenv(name, value)
	}
	number := func(port string) int {
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	profiles := map[string]ca.Profile{"default": {ValidityPeriod: uint64(validity / time.Second)}}
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, profiles)
	verifier := va.New(quiet, number(httpPort), number(tlsPort), false, startNames(t), store)
	front := wfe.New(quiet, store, verifier, issuer, []string{"pebble.letsencrypt.org"}, false, false, 1, 1)
	handler := front.Handler()
	a := &authority{roots: x509.NewCertPool(), file: filepath.Join(t.TempDir(), "authority.pem")}
	a.roots.AddCert(issuer.GetRootCert(0).Cert)
	a.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/order-plz" {
			a.orders.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(a.server.Close)
	a.server.Config.ErrorLog = quiet
	a.url = a.server.URL + wfe.DirectoryPath
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})
	if err := os.WriteFile(a.file, own, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// startNames starts a DNS server that knows all hosts, and returns its address.
func startNames(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: ln, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		answer := new(dns.Msg).SetReply(query)
		if q := query.Question[0]; q.Qtype == dns.TypeA {
			header := dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}
			answer.Answer = append(answer.Answer, &dns.A{Hdr: header, A: net.IPv4(127, 0, 0, 1)})
		}
		_ = w.WriteMsg(answer)
	})}
	served := make(chan error, 1)
	go func() { served <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		ln.Close()
		<-served
	})
	return ln.Addr().String()
}

// serve starts "sluice serve" on a port with certificates of the authority.
func (a *authority) serve(t *testing.T, port, cache string, args ...string) *process {
	t.Helper()
	args = append([]string{"serve", "--addr", "127.0.0.1:" + port, "--acme", "a.example,B.example", "--acme-directory", a.url, "--acme-cache", cache}, args...)
	cmd := limited(t, binary, args...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+a.file)
	return startCommand(t, cmd)
}

// handshake connects to a port for a host, and returns the connection and the certificate,
// which the authority has issued.
func (a *authority) handshake(t *testing.T, port, host string) *x509.Certificate {
	t.Helper()
	conn, err := dialFor(port, &tls.Config{ServerName: host, RootCAs: a.roots})
	if err != nil {
		t.Fatalf("%s: %v", host, err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func dialFor(port string, config *tls.Config) (*tls.Conn, error) {
	dialer := &net.Dialer{Timeout: 20 * time.Second}
	return tls.DialWithDialer(dialer, "tcp", "127.0.0.1:"+port, config)
}

// freePort returns a port on which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
