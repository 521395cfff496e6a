package programs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/tcp"
)

// shimVariable makes the test binary a server for BoringSSL's runner, see playShim. Its value is
// one of the modes.
const shimVariable = "SLUICE_INTEROP_SHIM"

// The modes of a shim.
const (
	modeCompact  = "compact"    // compact TLS
	modeDetached = "detached"   // the same, as the net.Conn that hijack handlers get
	modeCold     = "cold"       // compact TLS, and input comes when the connection has cooled down
	modeGo       = "crypto-tls" // without compact TLS
)

// The statuses that the runner knows.
const (
	statusUnimplemented = 89
	statusUnacceptable  = 90 // the test fails, whatever it expects
)

// playShim is a TLS server as the runner starts it for each of its tests, with flags that say
// what the test needs. It dials the runner, and serves the connection by a tcp.Server with
// EngineEpoll that answers each byte with its complement. Connections of ServeTLS are accepted,
// so it passes the bytes on between the runner's socket and one that it has accepted from
// itself.
//
// It ends with status 0 if each connection ended in peace. If one did not, the status is 1, and
// standard error has why, and which alerts were sent.
func playShim() {
	if len(os.Args) == 2 && os.Args[1] == "-is-handshaker-supported" {
		fmt.Println("No")
		os.Exit(0)
	}
	o, err := parseShim(os.Args[1:])
	if err != nil {
		os.Exit(statusUnimplemented)
	}
	s, err := newShim(o)
	if err != nil {
		log.Fatal(err)
	}
	for i := range o.resumptions + 1 {
		s.wants = o.first
		if i > 0 {
			s.wants = o.resumed
		}
		alerts, err := s.serve()
		if err != nil {
			fmt.Fprintln(os.Stderr, shimWords.Replace(fmt.Sprintf("%v\nsent: %s", err, alerts)))
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// shimWords makes alerts look the same, whoever tells of them.
var shimWords = strings.NewReplacer("sluice: the peer ended TLS with alert ", "received: ", "remote error: tls: ", "received: ", "_", " ")

// A shim serves the connections of one test, one after the other.
type shim struct {
	options *shimOptions
	mode    string
	config  *tls.Config
	ln      net.Listener
	keys    shimKeys
	wants   shimWants // of the connection at hand

	isOpened atomic.Bool
	ended    chan error // of the connection, if it was opened
}

func newShim(o *shimOptions) (*shim, error) {
	s := &shim{options: o, mode: os.Getenv(shimVariable), ended: make(chan error, 1)}
	pair, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
	if err != nil {
		return nil, err
	}
	pair.OCSPStaple = o.ocsp
	s.config = o.config
	s.config.Certificates = []tls.Certificate{pair}
	s.config.KeyLogWriter = &s.keys
	s.config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if !slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
			os.Exit(statusUnimplemented)
		}
		return nil, nil
	}
	if s.ln, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, err
	}
	server := &tcp.Server{Engine: tcp.EngineEpoll, OnOpen: s.open, Handler: answerComplement, OnClose: s.close, ReadBufferSize: o.readSize}
	go func() {
		log.Fatal(server.Serve(&engine.TLSListener{Listener: s.ln, Config: s.config, Compact: s.mode != modeGo}))
	}()
	return s, nil
}

// serve serves one connection of the runner. It returns which alerts were sent, and why the
// connection ended, nil if it did in peace.
func (s *shim) serve() (alerts string, err error) {
	s.keys.reset()
	s.isOpened.Store(false)
	runner, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv6loopback, Port: s.options.port})
	if err != nil {
		runner, err = net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: s.options.port})
	}
	if err != nil {
		return "", err
	}
	server, err := net.DialTCP("tcp", nil, s.ln.Addr().(*net.TCPAddr))
	if err != nil {
		return "", err
	}
	sent := s.relay(runner, server)
	if !s.isOpened.Load() {
		err = errors.New("the handshake has failed")
	} else {
		err = <-s.ended
	}
	return s.keys.alerts(sent), err
}

// open is called after the handshake.
func (s *shim) open(c *tcp.Conn) error {
	s.isOpened.Store(true)
	state := c.TLS()
	if state.Version != tls.VersionTLS13 {
		os.Exit(statusUnimplemented)
	}
	if isCompact(state) != (s.mode != modeGo) {
		fmt.Fprintf(os.Stderr, "%s is asked for, and the connection is not so\n", s.mode)
		os.Exit(statusUnacceptable)
	}
	if err := s.wants.check(state); err != nil {
		return err
	}
	if s.mode == modeDetached || s.options.shutsDown && s.options.checksClose {
		c.SetState(modeDetached)
		c.Detach(func(c net.Conn) { s.ended <- s.converse(c) })
		return nil
	}
	if s.options.writesFirst {
		_, _ = c.WriteString(shimGreeting)
	}
	if s.options.shutsDown {
		return io.EOF
	}
	return nil
}

// close is called after the end of a connection that was opened.
func (s *shim) close(c *tcp.Conn, err error) {
	if c.State() == nil { // else it goes on
		s.ended <- err
	}
}

const shimGreeting = "hello"

// answerComplement is the handler.
func answerComplement(c *tcp.Conn, in []byte) (int, error) {
	_, err := c.Write(complement(in))
	return len(in), err
}

// complement inverts each bit of p, in place.
func complement(p []byte) []byte {
	for i := range p {
		p[i] ^= 0xff
	}
	return p
}

// converse is the handler for a net.Conn.
func (s *shim) converse(c net.Conn) error {
	defer c.Close()
	if s.options.writesFirst {
		if _, err := io.WriteString(c, shimGreeting); err != nil {
			return err
		}
	}
	if s.options.shutsDown {
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			return err
		}
	}
	for p := make([]byte, s.options.readSize); ; {
		n, err := c.Read(p)
		if n > 0 && !s.options.shutsDown {
			if _, err := c.Write(complement(p[:n])); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
