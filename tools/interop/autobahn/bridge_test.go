//lint:file-ignore SA1019 net/http does not send an extended CONNECT

package autobahn

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/sluicehttp/sluice"
)

// The suite speaks HTTP/1.1 only. Bridges translate the handshake, and then copy bytes:
//
//	fuzzingclient ── HTTP/1.1 ──▶ bridgeToServer ── HTTP/2 ──▶ Endpoint
//	fuzzingclient ── TCP ──▶ bridgeToTLS ── TLS ──▶ Endpoint
//	Dial ── HTTP/2 ──▶ serveBridge ── HTTP/1.1 ──▶ fuzzingserver
//	Dial ── TLS ──▶ bridgeTLS ── TCP ──▶ fuzzingserver

// offered are the fields of the request that a bridge passes on, chosen those of the answer.
var (
	offered = []string{"Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions"}
	chosen  = offered[1:]
)

func copyFields(dst, src http.Header, names []string) {
	for _, name := range names {
		if values := src.Values(name); len(values) > 0 {
			dst[name] = values
		}
	}
}

// listen accepts until the test ends, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			go serve(c)
		}
	}()
	return ln.Addr().String()
}

// bridgeToServer returns the address of a bridge to an Endpoint. All its WebSockets share a
// connection of HTTP/2, which is that of another implementation.
func bridgeToServer(t *testing.T, addr string) string {
	transport := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, _ string, _ *tls.Config) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return listen(t, func(c net.Conn) {
		defer c.Close()
		if err := upgradeToStream(c, transport, addr); err != nil {
			t.Error(err)
		}
	})
}

// upgradeToStream answers an upgrade of HTTP/1.1 with what an extended CONNECT is answered.
func upgradeToStream(c net.Conn, transport http.RoundTripper, addr string) error {
	in := bufio.NewReader(c)
	asked, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body, toServer := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodConnect, "http://"+addr+asked.URL.RequestURI(), body)
	if err != nil {
		return err
	}
	req.Header[":protocol"] = []string{"websocket"}
	copyFields(req.Header, asked.Header, offered)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server has answered %s", resp.Status)
	}
	sum := sha1.Sum([]byte(asked.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	h := http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Accept": {base64.StdEncoding.EncodeToString(sum[:])},
	}
	copyFields(h, resp.Header, chosen)
	var head strings.Builder
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = h.Write(&head)
	if _, err := io.WriteString(c, head.String()+"\r\n"); err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(toServer, in)
		_ = toServer.CloseWithError(err) // nil ends the stream
	}()
	_, _ = io.Copy(c, resp.Body) // the suite judges what is missing
	return nil
}

// bridgeToSuite starts serveBridge, and returns its address. It needs a process of its own,
// because the server's package looks at GODEBUG when it is loaded.
func bridgeToSuite(t *testing.T, addr string) string {
	command := exec.Command(os.Args[0], "-test.run=^TestBridgeProcess$", "-test.timeout=0")
	command.Env = append(os.Environ(), "GODEBUG=http2xconnect=1", "AUTOBAHN_SUITE="+addr)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// TestBridgeProcess is the process of bridgeToSuite; it ends with its stdin.
func TestBridgeProcess(t *testing.T) {
	suite := os.Getenv("AUTOBAHN_SUITE")
	if suite == "" {
		t.Skip("it is no process of bridgeToSuite")
	}
	server := &http2.Server{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveBridge(w, r, suite) })
	fmt.Println(listen(t, func(c net.Conn) { server.ServeConn(c, &http2.ServeConnOpts{Handler: handler}) }))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// serveBridge answers an extended CONNECT with what the suite answers to an upgrade.
func serveBridge(w http.ResponseWriter, r *http.Request, suite string) {
	c, err := net.Dial("tcp4", suite)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer c.Close()
	key := make([]byte, 16)
	_, _ = rand.Read(key)
	h := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Key": {base64.StdEncoding.EncodeToString(key)}}
	copyFields(h, r.Header, offered)
	var head strings.Builder
	fmt.Fprintf(&head, "GET %s HTTP/1.1\r\nHost: %s\r\n", r.URL.RequestURI(), suite) // it checks the port
	_ = h.Write(&head)
	_, _ = io.WriteString(c, head.String()+"\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	copyFields(w.Header(), resp.Header, chosen)
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	_ = control.Flush()
	go func() {
		_, _ = io.Copy(c, r.Body)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	b := make([]byte, 32<<10)
	for {
		n, err := in.Read(b)
		if _, failed := w.Write(b[:n]); err != nil || failed != nil || control.Flush() != nil {
			return
		}
	}
}

// bridgeTLS returns the address of a bridge from TLS to the suite.
func bridgeTLS(t *testing.T, suite string) string {
	cert, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	return listen(t, func(plain net.Conn) {
		from := tls.Server(plain, config)
		to, err := net.Dial("tcp4", suite)
		if err != nil {
			t.Error(err)
			from.Close()
			return
		}
		copyBoth(from, to.(*net.TCPConn))
	})
}

// bridgeToTLS returns the address of a bridge to a server that speaks TLS.
func bridgeToTLS(t *testing.T, addr string) string {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	return listen(t, func(from net.Conn) {
		to, err := tls.Dial("tcp4", addr, config)
		if err != nil {
			t.Error(err)
			from.Close()
			return
		}
		copyBoth(from, to)
	})
}

// copyBoth copies both ways until to has no more.
func copyBoth(from net.Conn, to interface {
	net.Conn
	CloseWrite() error
}) {
	defer from.Close()
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.CloseWrite()
	}()
	_, _ = io.Copy(from, to)
}
