package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

// Names of contenders. Ratios are to fasthttp.
const (
	sluiceName   = "sluice"
	fasthttpName = "fasthttp"
	netHTTPName  = "nethttp"
	bytesName    = "bytes" // the floor
)

// A maker makes a client.
type maker struct {
	name string
	make func(env environment) client
}

// An environment is what clients of a case have in common.
type environment struct {
	dial  func() (net.Conn, error)
	conns int // at most
}

// A client makes the workers that send requests with it.
type client struct {
	worker func() operation
	close  func()
}

// An operation sends a request and checks the response. It belongs to one
// worker.
type operation func() error

// Where requests go. Names are not looked up: dialers ignore them.
const (
	host = "127.0.0.1:80"
	url  = "http://" + host + peers.Target
)

// idleTime keeps connections open while others have their turn.
const idleTime = time.Hour

// doMakers returns clients that send one prepared request over and over.
func doMakers() []maker {
	return []maker{{sluiceName, doSluice}, {fasthttpName, doFastHTTP}, {netHTTPName, doNetHTTP}, {bytesName, doBytes}}
}

// getMakers returns clients that are given the URL each time.
func getMakers() []maker {
	return []maker{{sluiceName, getSluice}, {fasthttpName, getFastHTTP}, {netHTTPName, getNetHTTP}, {bytesName, doBytes}}
}

var errAnswer = errors.New("another answer than the server's")

// check compares an answer with what servers send.
func check(status int, body []byte, err error) error {
	if err != nil {
		return err
	}
	if status != 200 || string(body) != responseBody {
		return fmt.Errorf("%w: %d %q", errAnswer, status, body)
	}
	return nil
}

func sluiceClient(env environment) *sluice.Client {
	return &sluice.Client{
		Dial:                func(string) (net.Conn, error) { return env.dial() },
		MaxConnsPerHost:     env.conns,
		MaxIdleConnDuration: idleTime,
	}
}

func fasthttpClient(env environment) *fasthttp.Client {
	return &fasthttp.Client{
		Dial:                func(string) (net.Conn, error) { return env.dial() },
		MaxConnsPerHost:     env.conns,
		MaxIdleConnDuration: idleTime,
	}
}

func doSluice(env environment) client {
	c := sluiceClient(env)
	return client{sluiceDoer(c.Do), c.CloseIdleConnections}
}

func doFastHTTP(env environment) client {
	c := fasthttpClient(env)
	return client{fasthttpDoer(c.Do), c.CloseIdleConnections}
}

func getSluice(env environment) client {
	c := sluiceClient(env)
	return client{getter(c.Get), c.CloseIdleConnections}
}

func getFastHTTP(env environment) client {
	c := fasthttpClient(env)
	return client{getter(c.Get), c.CloseIdleConnections}
}

// sluiceDoer returns a maker of workers that send one request over and over.
func sluiceDoer(do func(*sluice.Request, *sluice.Response) error) func() operation {
	return func() operation {
		req, resp := new(sluice.Request), new(sluice.Response)
		req.SetRequestURI(url)
		return func() error {
			err := do(req, resp)
			return check(resp.StatusCode(), resp.Body(), err)
		}
	}
}

// fasthttpDoer is sluiceDoer for fasthttp.
func fasthttpDoer(do func(*fasthttp.Request, *fasthttp.Response) error) func() operation {
	return func() operation {
		req, resp := new(fasthttp.Request), new(fasthttp.Response)
		req.SetRequestURI(url)
		return func() error {
			err := do(req, resp)
			return check(resp.StatusCode(), resp.Body(), err)
		}
	}
}

// getter returns a maker of workers that get the URL.
func getter(get func(dst []byte, url string) (int, []byte, error)) func() operation {
	return func() operation {
		var buf []byte
		return func() error {
			status, body, err := get(buf, url)
			buf = body
			return check(status, body, err)
		}
	}
}

func netHTTPClient(env environment) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return env.dial() },
		MaxIdleConns:        env.conns,
		MaxIdleConnsPerHost: env.conns,
		MaxConnsPerHost:     env.conns,
		IdleConnTimeout:     idleTime,
	}}
}

func doNetHTTP(env environment) client {
	c := netHTTPClient(env)
	return client{func() operation {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		return netHTTPOperation(func() (*http.Response, error) {
			if err != nil {
				return nil, err
			}
			return c.Do(req)
		})
	}, c.CloseIdleConnections}
}

func getNetHTTP(env environment) client {
	c := netHTTPClient(env)
	return client{func() operation {
		return netHTTPOperation(func() (*http.Response, error) { return c.Get(url) })
	}, c.CloseIdleConnections}
}

// netHTTPOperation returns an operation that reads and checks what send gets.
func netHTTPOperation(send func() (*http.Response, error)) operation {
	var buf bytes.Buffer
	return func() error {
		resp, err := send()
		return checkNetHTTP(&buf, resp, err)
	}
}

func checkNetHTTP(buf *bytes.Buffer, resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	buf.Reset()
	_, err = buf.ReadFrom(resp.Body)
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	return check(resp.StatusCode, buf.Bytes(), err)
}

// constantRequest is what the clients send, more or less.
const constantRequest = "GET " + peers.Target + " HTTP/1.1\r\nUser-Agent: bytes\r\nHost: " + host + "\r\n\r\n"

// doBytes is no client: it writes a constant and reads up to the end of the
// response, on a connection per worker. That is the share of connection, server
// and scheduler in the others' times.
func doBytes(env environment) client {
	var conns []net.Conn
	newWorker := func() operation {
		conn, err := env.dial()
		if err == nil {
			conns = append(conns, conn)
		}
		request, buf := []byte(constantRequest), make([]byte, 4096)
		return func() error {
			if err != nil {
				return err
			}
			return exchangeBytes(conn, request, buf)
		}
	}
	return client{newWorker, func() {
		for _, conn := range conns {
			_ = conn.Close() // nobody waits for anything there
		}
	}}
}

func exchangeBytes(conn net.Conn, request, buf []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	for n := 0; ; {
		if n == len(buf) {
			return io.ErrShortBuffer
		}
		more, err := conn.Read(buf[n:])
		if err != nil {
			return err
		}
		n += more
		if bytes.HasSuffix(buf[:n], []byte("\r\n\r\n"+responseBody)) {
			return nil
		}
	}
}
