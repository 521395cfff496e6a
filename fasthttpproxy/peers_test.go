package fasthttpproxy

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// peer is a test server. serve handles each connection.
type peer struct {
	addr string
	open atomic.Int32 // connections

	mu    sync.Mutex
	heads []string // the requests that it got, in a form of its own
}

// startPeer starts a server on loopback. It ends with its connections before the test
// does.
func startPeer(t *testing.T, config *tls.Config, serve func(p *peer, conn net.Conn)) *peer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{addr: ln.Addr().String()}
	var serving sync.WaitGroup
	var conns sync.Map
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Store(conn, true)
			p.open.Add(1)
			serving.Go(func() {
				defer p.open.Add(-1)
				defer conn.Close()
				if config != nil {
					serve(p, tls.Server(conn, config))
				} else {
					serve(p, conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		conns.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true })
		serving.Wait()
	})
	return p
}

// waitClosed waits until the clients have closed their connections.
func (p *peer) waitClosed(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); p.open.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d connections stay open", name, p.open.Load())
		}
	}
}

func (p *peer) asked(head string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heads = append(p.heads, head)
}

// takeAsked returns the requests since the last call.
func (p *peer) takeAsked() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	heads := strings.Join(p.heads, "|")
	p.heads = nil
	return heads
}

// echo echoes its input.
func echo(p *peer, conn net.Conn) {
	p.asked("tunnel")
	io.Copy(conn, conn)
}

// saying is a proxy that answers each CONNECT with text and then echoes. Without text
// it only closes.
func saying(text string) func(p *peer, conn net.Conn) {
	return func(p *peer, conn net.Conn) {
		in := bufio.NewReader(conn)
		p.asked(readHead(in))
		if text != "" {
			io.WriteString(conn, text)
			io.Copy(conn, in)
		}
	}
}

// readHead reads up to an empty line and returns the lines.
func readHead(in *bufio.Reader) string {
	var lines []string
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == "\r\n" {
			return strings.Join(lines, ",")
		}
		lines = append(lines, strings.TrimSuffix(line, "\r\n"))
	}
}

// relaying is a proxy that carries out its requests. It resolves all names to this
// machine.
func relaying(p *peer, conn net.Conn) {
	in := bufio.NewReader(conn)
	head := readHead(in)
	p.asked(head)
	target, _, _ := strings.Cut(strings.TrimPrefix(head, "CONNECT "), " ")
	_, port, _ := net.SplitHostPort(target)
	upstream, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	relay(conn, in, upstream)
}

// relay copies in both directions until one ends.
func relay(conn net.Conn, in io.Reader, upstream net.Conn) {
	go func() {
		io.Copy(upstream, in)
		upstream.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(conn, upstream)
	upstream.Close()
	conn.Close()
}

// socksProxy is a SOCKS5 proxy (RFC 1928). With a user it asks for user and
// password (RFC 1929). It answers requests with reply, and relays if that is 0.
func socksProxy(user, password string, reply byte) func(p *peer, conn net.Conn) {
	return func(p *peer, conn net.Conn) {
		in := bufio.NewReader(conn)
		next := func(n int) []byte {
			b := make([]byte, n)
			io.ReadFull(in, b)
			return b
		}
		methods := next(int(next(2)[1])) // after the version and their number
		switch {
		case user == "":
			conn.Write([]byte{5, 0})
		case !bytes.Contains(methods, []byte{2}):
			conn.Write([]byte{5, 0xff})
			return
		default:
			conn.Write([]byte{5, 2})
			name := string(next(int(next(2)[1])))
			if secret := string(next(int(next(1)[0]))); name != user || secret != password {
				conn.Write([]byte{1, 1})
				return
			}
			conn.Write([]byte{1, 0})
		}
		var host string
		switch next(4)[3] { // version, command, reserved, kind of address
		case 1:
			host = net.IP(next(4)).String()
		case 3:
			host = "name " + string(next(int(next(1)[0])))
		case 4:
			host = net.IP(next(16)).String()
		}
		port := next(2)
		number := strconv.Itoa(int(port[0])<<8 | int(port[1]))
		p.asked(host + " " + number)
		if reply != 0 {
			conn.Write([]byte{5, reply, 0, 1, 0, 0, 0, 0, 0, 0})
			return
		}
		upstream, err := net.Dial("tcp", "127.0.0.1:"+number)
		if err != nil {
			return
		}
		conn.Write([]byte{5, 0, 0, 1, 127, 0, 0, 1, 0, 1})
		relay(conn, in, upstream)
	}
}

// silent never answers. Its connections end with the test.
func silent(_ *peer, conn net.Conn) { io.Copy(io.Discard, conn) }

// proxyTLS returns a configuration with a certificate for proxy.test and 127.0.0.1,
// and one that trusts it.
func proxyTLS(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"proxy.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, _ := x509.ParseCertificate(der)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: roots}
}

// noLeaks checks that no goroutines are left at the end of the test.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() { // runs after the servers' cleanups, which are registered later
		for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<20)
				t.Errorf("%d goroutines, %d at the start:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// checkEcho sends a message through conn, reads early and then the message, and
// closes conn.
func checkEcho(t *testing.T, name string, conn net.Conn, early string) {
	t.Helper()
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(conn, "ping")
	got := make([]byte, len(early)+4)
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != early+"ping" {
		t.Errorf("%s: read %q, %v; want %q", name, got[:n], err, early+"ping")
	}
}
