package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// Names of contenders.
const (
	sluiceName   = "sluice"
	fasthttpName = "fasthttp"
	netHTTPName  = "net/http"
	bytesName    = "bytes" // the floor
	sluice2Name  = "sluice HTTP/2"
	netHTTP2Name = "net/http HTTP/2"
)

// role is what a client's process does.
const role = "http-client"

// config is what it gets.
type config struct {
	Name, Addr string
	Callers    int
	Fields     int // of headFields
	Timeout    time.Duration
}

// headFields are set anew for each request, with the URI, as a program does that makes
// requests.
var headFields = [][2]string{
	{"Accept", "application/json"},
	{"Authorization", "Bearer 0123456789abcdef0123456789abcdef"},
	{"X-Request-Id", "8d1f0c7a-5b3d-4246-9f01-0c7a5b3d9246"},
	{"Accept-Language", "en-GB,en;q=0.9"},
	{"Cache-Control", "no-cache"},
}

// Roles has what the subcommand's processes do.
func Roles() map[string]process.Role { return map[string]process.Role{role: serve} }

// serve sends as many requests as each line of the standard input says.
func serve(text []byte) error {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	callers := make([]func() error, c.Callers)
	for i, newCaller := 0, c.client(); i < len(callers); i++ {
		callers[i] = newCaller()
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		var done, failed atomic.Int64
		var all sync.WaitGroup
		for _, call := range callers {
			all.Go(func() {
				for done.Add(1) <= int64(n) {
					if err := call(); err != nil {
						fmt.Fprintln(os.Stderr, c.Name+":", err)
						failed.Add(1)
					}
				}
			})
		}
		all.Wait()
		fmt.Println(int64(n) - failed.Load())
	}
	return nil
}

// client returns what makes the callers of a contender. A caller belongs to one goroutine.
func (c *config) client() func() func() error {
	url := "http://" + c.Addr + peers.Target
	switch c.Name {
	case sluiceName, sluice2Name:
		hc := &sluice.HostClient{Addr: c.Addr, MaxConns: c.Callers, MaxIdleConnDuration: time.Hour}
		if c.Name == sluice2Name {
			hc.HTTP2 = sluice.HTTP2Only
		}
		return func() func() error {
			req, resp := new(sluice.Request), new(sluice.Response)
			req.SetRequestURI(url)
			return func() (err error) {
				if c.Fields > 0 {
					req.Reset()
					req.SetRequestURI(url)
				}
				for _, field := range headFields[:c.Fields] {
					req.Header.Set(field[0], field[1])
				}
				if c.Timeout > 0 {
					err = hc.DoTimeout(req, resp, c.Timeout)
				} else {
					err = hc.Do(req, resp)
				}
				return check(resp.StatusCode(), resp.Body(), err)
			}
		}
	case fasthttpName:
		hc := &fasthttp.HostClient{Addr: c.Addr, MaxConns: c.Callers, MaxIdleConnDuration: time.Hour}
		return func() func() error {
			req, resp := new(fasthttp.Request), new(fasthttp.Response)
			req.SetRequestURI(url)
			return func() (err error) {
				if c.Fields > 0 {
					req.Reset()
					req.SetRequestURI(url)
				}
				for _, field := range headFields[:c.Fields] {
					req.Header.Set(field[0], field[1])
				}
				if c.Timeout > 0 {
					err = hc.DoTimeout(req, resp, c.Timeout)
				} else {
					err = hc.Do(req, resp)
				}
				return check(resp.StatusCode(), resp.Body(), err)
			}
		}
	case netHTTPName, netHTTP2Name:
		return c.netHTTP(url)
	default:
		return c.bytes
	}
}

func (c *config) netHTTP(url string) func() func() error {
	tr := &http.Transport{MaxIdleConns: c.Callers, MaxIdleConnsPerHost: c.Callers, MaxConnsPerHost: c.Callers, IdleConnTimeout: time.Hour}
	if c.Name == netHTTP2Name {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	hc := &http.Client{Transport: tr}
	return func() func() error {
		var body bytes.Buffer
		return func() error {
			ctx := context.Background()
			if c.Timeout > 0 {
				limited, cancel := context.WithTimeout(ctx, c.Timeout)
				defer cancel()
				ctx = limited
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			for _, field := range headFields[:c.Fields] {
				req.Header.Set(field[0], field[1])
			}
			resp, err := hc.Do(req)
			if err != nil {
				return err
			}
			body.Reset()
			_, err = body.ReadFrom(resp.Body)
			_ = resp.Body.Close() // the body was read
			return check(resp.StatusCode, body.Bytes(), err)
		}
	}
}

// bytes makes callers that are no client: they write a constant, and read up to the end of
// the response.
func (c *config) bytes() func() error {
	conn, err := net.Dial("tcp", c.Addr)
	request := []byte("GET " + peers.Target + " HTTP/1.1\r\nUser-Agent: sluice\r\nHost: " + c.Addr + "\r\n\r\n")
	in := make([]byte, 4096)
	return func() error {
		if err != nil {
			return err
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		for n := 0; !bytes.HasSuffix(in[:n], []byte("\r\n\r\n"+peers.Body)); {
			if n == len(in) {
				return io.ErrShortBuffer
			}
			more, err := conn.Read(in[n:])
			if err != nil {
				return err
			}
			n += more
		}
		return nil
	}
}

func check(status int, body []byte, err error) error {
	if err == nil && (status != 200 || string(body) != peers.Body) {
		err = fmt.Errorf("another answer than the server's: %d %q", status, body)
	}
	return err
}
