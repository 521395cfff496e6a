package stall

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/process"
)

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
	openers    = 16               // connections opened at a time
	patience   = 30 * time.Second // for a connection or an answer
	perProcess = 15_000           // connections, at most
)

// newDialer returns what opens connections. The choice of the port is left to
// connect, which knows the other end and so has more to choose from.
func newDialer() *net.Dialer {
	dialer := &net.Dialer{Timeout: patience, KeepAlive: -1}
	dialer.SetMultipathTCP(false)
	return dialer
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

// openAll opens n connections, several at a time.
func openAll(n int, open func(i int) (net.Conn, error)) ([]net.Conn, error) {
	conns := make([]net.Conn, n)
	errs := make([]error, openers)
	var wg sync.WaitGroup
	for opener := range openers {
		wg.Go(func() {
			for i := opener; i < n && errs[opener] == nil; i += openers {
				conns[i], errs[opener] = open(i)
			}
		})
	}
	wg.Wait()
	return conns, errors.Join(errs...)
}
