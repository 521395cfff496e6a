package fasthttpproxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice"
	socks "golang.org/x/net/proxy"
)

const (
	// maxAnswerHead bounds the head of a proxy's answer, in bytes.
	maxAnswerHead = 16 << 10
	// maxInterim bounds the 1xx answers before the one that counts.
	maxInterim = 8
)

var errTooManyInterim = errors.New("sluice: too many informational responses")

// TunnelError is returned when a proxy was connected to but there is no tunnel:
// it refused, its answer makes no sense, it closed the connection, TLS with it
// failed, or the time passed, which is sluice.ErrDialTimeout. It comes as a
// pointer: use errors.As.
type TunnelError struct {
	Proxy      string // "host:port"
	Target     string // "host:port", what the tunnel was to lead to
	StatusCode int    // the proxy's answer to CONNECT; 0: none, or a SOCKS proxy
	Err        error  // why; nil with a StatusCode
}

// Error tells proxy, target and reason.
func (e *TunnelError) Error() string {
	reason := "unknown reason"
	switch {
	case e.Err != nil:
		reason = e.Err.Error()
	case e.StatusCode != 0:
		reason = "it answered " + strconv.Itoa(e.StatusCode) + " " + sluice.StatusMessage(e.StatusCode)
	}
	return "sluice: no tunnel through proxy " + e.Proxy + " to " + e.Target + ": " + reason
}

// Unwrap returns the reason, nil if it is the proxy's answer.
func (e *TunnelError) Unwrap() error { return e.Err }

// tunnel asks p, which conn leads to, for a tunnel to addr. conn then belongs to
// the tunnel, or is closed.
func (p *proxy) tunnel(ctx context.Context, conn net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	tunnel, status, err := p.ask(conn, addr, config)
	if !stop() { // the connection's deadline has passed, or is about to
		if err = context.Cause(ctx); err != sluice.ErrDialTimeout {
			conn.Close()
			return nil, &sluice.PhaseError{Phase: sluice.PhaseDial, Err: err}
		}
	}
	if err != nil || status != 0 {
		conn.Close()
		return nil, &TunnelError{Proxy: p.addr, Target: addr, StatusCode: status, Err: err}
	}
	return tunnel, nil
}

// ask returns the tunnel, the status with which the proxy refuses one, or an
// error.
func (p *proxy) ask(conn net.Conn, addr string, config *tls.Config) (tunnel net.Conn, status int, err error) {
	switch p.scheme {
	case "socks5":
		return conn, 0, p.askSocks(conn, addr)
	case "https":
		conn = tls.Client(conn, p.tlsConfig(config))
	}
	return p.connect(conn, addr)
}

// tlsConfig returns config with what it lacks for the proxy.
func (p *proxy) tlsConfig(config *tls.Config) *tls.Config {
	if config == nil {
		config = new(tls.Config)
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName = p.host
	}
	if config.NextProtos == nil {
		config.NextProtos = []string{"http/1.1"}
	}
	return config
}

// connect asks by CONNECT (RFC 9110 section 9.3.6).
func (p *proxy) connect(conn net.Conn, addr string) (tunnel net.Conn, status int, err error) {
	if _, err := conn.Write(p.appendConnect(nil, addr)); err != nil {
		return nil, 0, err
	}
	in := bufio.NewReaderSize(conn, maxAnswerHead)
	status, err = readStatus(in)
	if err != nil {
		return nil, 0, err
	}
	if status/100 != 2 {
		return nil, status, nil
	}
	// Whatever the head says of a body, what follows comes out of the tunnel.
	if in.Buffered() == 0 {
		return conn, 0, nil
	}
	early, _ := in.Peek(in.Buffered()) // cannot fail
	return &earlyConn{Conn: conn, early: append([]byte(nil), early...)}, 0, nil
}

// appendConnect appends the request for a tunnel to addr.
func (p *proxy) appendConnect(dst []byte, addr string) []byte {
	dst = append(dst, "CONNECT "+addr+" HTTP/1.1\r\nHost: "+addr+"\r\n"...)
	if p.user != nil {
		password, _ := p.user.Password()
		dst = append(dst, "Proxy-Authorization: Basic "...)
		dst = base64.StdEncoding.AppendEncode(dst, []byte(p.user.Username()+":"+password))
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// readStatus reads the head of the answer to CONNECT.
func readStatus(in *bufio.Reader) (status int, err error) {
	var head sluice.ResponseHeader
	for range maxInterim + 1 {
		if err := head.Read(in); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // it closed the connection without a word
			}
			return 0, err
		}
		if status = head.StatusCode(); status >= 200 || status == sluice.StatusSwitchingProtocols {
			return status, nil
		}
	}
	return 0, errTooManyInterim
}

// askSocks asks by SOCKS5, with user and password if there are any (RFC 1929).
func (p *proxy) askSocks(conn net.Conn, addr string) error {
	var auth *socks.Auth
	if p.user != nil {
		password, _ := p.user.Password()
		auth = &socks.Auth{User: p.user.Username(), Password: password}
	}
	dialer, err := socks.SOCKS5("tcp", p.addr, auth, connected{conn})
	if err != nil {
		return err
	}
	// What it returns only hides conn, of which it reads no byte too much.
	_, err = dialer.Dial("tcp", addr)
	return err
}

// connected is a Dialer whose connection is there already.
type connected struct{ conn net.Conn }

// Dial returns the connection.
func (c connected) Dial(string, string) (net.Conn, error) { return c.conn, nil }

// earlyConn is a tunnel of which the first bytes came with the proxy's answer.
type earlyConn struct {
	net.Conn
	early []byte // not yet read
}

// Read reads the early bytes first.
func (c *earlyConn) Read(b []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.early)
	c.early = c.early[n:]
	return n, nil
}

// CloseWrite tells the peer that nothing more comes, where the connection can.
func (c *earlyConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
