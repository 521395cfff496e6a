package load

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// An Answer is a response as a whole.
type Answer struct {
	*http.Response        // whose body has been read
	Content        []byte // the body
	Size           int    // bytes of the response, with the head
}

// Ask sends the load's request once and reads the answer, which is for the
// caller to check: what is measured must be the same everywhere.
func (l Load) Ask() (*Answer, error) {
	conn, err := l.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(l.Request); err != nil {
		return nil, err
	}
	var raw bytes.Buffer
	response, err := http.ReadResponse(bufio.NewReader(io.TeeReader(conn, &raw)), nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	return &Answer{Response: response, Content: body, Size: raw.Len()}, nil
}

// dial opens one connection, from any address.
func (l Load) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: patience}
	if l.TLS {
		return tls.DialWithDialer(dialer, "tcp4", l.Addr, tlsConfig())
	}
	return dialer.Dial("tcp4", l.Addr)
}

// tlsConfig trusts everybody: certificates are made a moment ago, for a loopback
// address.
func tlsConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
}
