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
	"github.com/sluicehttp/sluice/internal/message"
	socks "golang.org/x/net/proxy"
)

const (
	// maxAnswerHead bounds the head of a proxy's response, in bytes.
	maxAnswerHead = 16 << 10
	// maxInterim bounds the 1xx responses before the final one.
	maxInterim = 8
)

var errTooManyInterim = errors.New("sluice: too many informational responses")

// TunnelError is returned if the connection to a proxy was established, but the
// tunnel was not. The proxy may have refused the tunnel, sent a malformed
// response or closed the connection; TLS to the proxy may have failed; or the
// time-out may have expired, in which case Err is sluice.ErrDialTimeout. The
// error is a *TunnelError: use errors.As.
type TunnelError struct {
	Proxy      string // "host:port"
	Target     string // "host:port", the intended end of the tunnel
	StatusCode int    // status of the response to CONNECT; 0: no response, or a SOCKS proxy
	Err        error  // the reason; nil if there is a StatusCode
}

// Error names proxy, target and reason.
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

// Unwrap returns Err.
func (e *TunnelError) Unwrap() error { return e.Err }

// tunnel requests a tunnel to addr from p. conn is a connection to p. The
// returned tunnel owns conn; after an error conn is closed.
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

// ask requests the tunnel. It returns the tunnel, the status with which the proxy
// refuses it, or an error.
func (p *proxy) ask(conn net.Conn, addr string, config *tls.Config) (tunnel net.Conn, status int, err error) {
	switch p.scheme {
	case "socks5":
		return conn, 0, p.askSocks(conn, addr)
	case "https":
		conn = tls.Client(conn, p.tlsConfig(config))
	}
	return p.connect(conn, addr)
}

// tlsConfig returns a copy of config with defaults for ServerName and
// NextProtos.
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

// connect requests the tunnel with CONNECT (RFC 9110 section 9.3.6).
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
	// A successful response to CONNECT has no body, even if its head announces
	// one: all following bytes belong to the tunnel.
	if in.Buffered() == 0 {
		if secure, ok := conn.(*tls.Conn); ok {
			return secureTunnel{secure}, 0, nil
		}
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

// readStatus reads the head of the response to CONNECT.
func readStatus(in *bufio.Reader) (status int, err error) {
	var head message.ResponseHeader
	for range maxInterim + 1 {
		head.ResetMessage()
		if err := head.ReadTunnel(in, message.ReaderLimits(in)); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the proxy closed the connection without a response
			}
			return 0, err
		}
		if status = head.Status(); status >= 200 || status == sluice.StatusSwitchingProtocols {
			return status, nil
		}
	}
	return 0, errTooManyInterim
}

// askSocks requests the tunnel with SOCKS5. It sends user and password if there
// are any (RFC 1929).
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
	// The returned connection only wraps conn. Dial reads no byte of the tunnel,
	// so conn can be used instead.
	_, err = dialer.Dial("tcp", addr)
	return err
}

// connected is a Dialer that returns an existing connection.
type connected struct{ conn net.Conn }

// Dial returns the connection.
func (c connected) Dial(string, string) (net.Conn, error) { return c.conn, nil }

// A secureTunnel is a tunnel over TLS to the proxy. It is not a *tls.Conn: a client would
// take the TLS for that of the server, and what it sends would be plain text for the proxy.
type secureTunnel struct{ *tls.Conn }

// earlyConn is a tunnel whose first bytes arrived together with the proxy's
// response.
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

// NetConn returns the connection underneath.
func (c *earlyConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the writing side. Its error is errors.ErrUnsupported if the
// connection has no CloseWrite.
func (c *earlyConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
