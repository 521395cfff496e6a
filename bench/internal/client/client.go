// Package client is the other end of the servers' connections: processes that
// hold connections, use them on a schedule, or open and close them.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
)

const (
	holdRole  = "hold"
	paceRole  = "pace"
	churnRole = "churn"
)

// Roles returns what process.Main must know for this package's processes.
func Roles() map[string]process.Role {
	return map[string]process.Role{holdRole: role(hold), paceRole: role(pace), churnRole: role(churn)}
}

// role makes a Role of a function that takes its configuration.
func role[Config any](run func(Config) error) process.Role {
	return func(text []byte) error {
		var config Config
		if err := json.Unmarshal(text, &config); err != nil {
			return err
		}
		return run(config)
	}
}

const (
	openers  = 16               // connections opened at a time
	patience = 30 * time.Second // for a connection or an answer
)

// newDialer returns what opens connections from a source address.
func newDialer(source string) *net.Dialer {
	dialer := &net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)},
		Timeout:   patience,
		KeepAlive: -1,
		Control:   bindWithoutPort,
	}
	dialer.SetMultipathTCP(false)
	return dialer
}

// bindWithoutPort leaves the choice of the port to connect, which knows the
// other end and so has more to choose from (IP_BIND_ADDRESS_NO_PORT, ip(7)).
func bindWithoutPort(_, _ string, c syscall.RawConn) error {
	const ipBindAddressNoPort = 24
	var err error
	controlErr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipBindAddressNoPort, 1)
	})
	return errors.Join(controlErr, err)
}

// open dials; the TLS handshake, if there is one, is done.
func open(dialer *net.Dialer, addr string, overTLS bool) (net.Conn, error) {
	c, err := dialer.Dial("tcp4", addr)
	if err != nil {
		return nil, err
	}
	if !overTLS {
		return c, nil
	}
	secured := tls.Client(c, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // the certificate was made a moment ago for a loopback address
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return secured, nil
}

// reset closes without leaving the connection in TIME_WAIT: thousands of them
// would keep ports from the next server's clients.
func reset(c net.Conn) {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	if plain, ok := c.(*net.TCPConn); ok {
		_ = plain.SetLinger(0)
	}
	c.Close()
}

// requestFor returns a request for a target, with further header fields.
func requestFor(target, fields string) []byte {
	return []byte("GET " + target + " HTTP/1.1\r\nHost: www.example.com\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
		"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n" + fields + "\r\n")
}

// ask sends a request and reads its answer, which ends in peers.Body, into buf.
func ask(c net.Conn, request, buf []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	for n := 0; ; {
		k, err := c.Read(buf[n:])
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		n += k
		if bytes.HasSuffix(buf[:n], []byte(peers.Body)) {
			if !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 200 ")) {
				return fmt.Errorf("unexpected answer: %q", buf[:n])
			}
			return nil
		}
		if n == len(buf) {
			return fmt.Errorf("unexpected answer: %q", buf[:n])
		}
	}
}

const answerSize = 1024 // at most, in bytes
