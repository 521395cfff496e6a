package stall

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
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

// A download is an answer under way.
type download struct {
	conn net.Conn  // of TCP, below TLS if there is any
	body io.Reader // what was not read yet
}

// ask sends a request of req's method on a connection of its own, and returns the answer.
func ask(dialer *net.Dialer, addr, target string, overTLS bool, req *sluice.Request) (*sluice.Response, download, error) {
	var d download
	scheme := "http://"
	client := &sluice.HostClient{Addr: addr, IsTLS: overTLS, StreamResponseBody: true, ReadBufferSize: stalledBuffer, MaxIdemponentCallAttempts: 1}
	if overTLS { // the certificate was made a moment ago for a loopback address
		scheme, client.TLSConfig = "https://", &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
	}
	client.Dial = func(string) (_ net.Conn, err error) {
		if d.conn, err = dialer.Dial("tcp4", addr); err != nil {
			return nil, err
		}
		return d.conn, nil
	}
	req.SetRequestURI(scheme + addr + target)
	resp := new(sluice.Response)
	err := client.Do(req, resp)
	if err == nil && resp.StatusCode() != sluice.StatusOK {
		err = fmt.Errorf("status %d: %.200q", resp.StatusCode(), resp.Body())
	}
	if err != nil {
		d.reset()
		return nil, d, err
	}
	d.body = resp.BodyStream()
	return resp, d, nil
}

// reset closes without leaving the connection in TIME_WAIT: thousands of them
// would keep ports from the next server's clients.
func (d download) reset() {
	if plain, ok := d.conn.(*net.TCPConn); ok {
		_ = plain.SetLinger(0)
		plain.Close()
	}
}

// openAll opens n downloads, several at a time.
func openAll(n int, open func() (download, error)) ([]download, error) {
	all := make([]download, n)
	errs := make([]error, openers)
	var wg sync.WaitGroup
	for opener := range openers {
		wg.Go(func() {
			for i := opener; i < n && errs[opener] == nil; i += openers {
				all[i], errs[opener] = open()
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}
