package load

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/latency"
)

// A tlsClient has a goroutine per connection.
type tlsClient struct {
	Load
	conns    []*tls.Conn
	answered latency.Histogram
}

func newTLSClient(l Load) (driver, error) {
	c := &tlsClient{Load: l}
	dialer := &net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(l.source(0))}}
	buf := make([]byte, l.Size)
	for range l.Conns {
		conn, err := tls.DialWithDialer(dialer, "tcp4", l.Addr, tlsConfig())
		if err != nil {
			return nil, err
		}
		c.conns = append(c.conns, conn)
		for range 2 {
			if err := c.exchange(conn, buf); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

func (c *tlsClient) exchange(conn net.Conn, buf []byte) error {
	if _, err := conn.Write(c.Request); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, buf); err != nil {
		return err
	}
	if !bytes.HasPrefix(buf, []byte(statusLine)) {
		return errStatus
	}
	return nil
}

func (c *tlsClient) run() (Result, error) {
	var over atomic.Bool
	errs := make([]error, len(c.conns))
	var workers sync.WaitGroup
	begin := time.Now()
	for i, conn := range c.conns {
		workers.Go(func() {
			buf := make([]byte, c.Size)
			for !over.Load() && errs[i] == nil {
				sent := time.Now()
				if errs[i] = c.exchange(conn, buf); errs[i] == nil {
					c.answered.Record(time.Since(sent))
				}
				if time.Since(begin) >= c.Duration {
					over.Store(true)
				}
			}
		})
	}
	workers.Wait()
	r := summary(&c.answered, time.Since(begin))
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	return r, nil
}

// summary makes a result of what was answered.
func summary(answered *latency.Histogram, elapsed time.Duration) Result {
	return Result{
		Requests: int(answered.Count()), Elapsed: elapsed,
		P50: answered.Percentile(50), P99: answered.Percentile(99), Max: answered.Percentile(100),
	}
}

func (c *tlsClient) close() {
	for _, conn := range c.conns {
		if plain, ok := conn.NetConn().(*net.TCPConn); ok {
			_ = plain.SetLinger(0) // leave no connection in TIME_WAIT
			plain.Close()
		}
	}
}
