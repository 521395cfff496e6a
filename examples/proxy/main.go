// Command proxy is a reverse proxy with one upstream.
//
//	go run ./examples/sse -addr 127.0.0.1:9000 &
//	go run ./examples/proxy -upstream http://127.0.0.1:9000
//	curl -N http://127.0.0.1:8080/events
//
// Bodies are forwarded in both directions while they arrive, in constant memory: a
// slow reader delays the sender. If a client disconnects, its request to upstream is
// cancelled. WebSockets and other upgrades become tunnels.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/url"
	"time"

	"github.com/sluicehttp/sluice"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	upstream := flag.String("upstream", "http://127.0.0.1:9000", "where requests go")
	trust := flag.Bool("behind-proxy", false, "believe the X-Forwarded fields that come, and add to them")
	flag.Parse()
	p, err := newProxy(*upstream, log.Default())
	if err != nil {
		log.Fatal(err)
	}
	p.trustsForwarded = *trust
	log.Printf("http://%s leads to %s", *addr, *upstream)
	log.Fatal(p.server().ListenAndServe(*addr))
}

// patience bounds each wait: for a connection, for the head of a response, for
// the next piece of a body.
const patience = time.Minute

// A proxy forwards requests.
type proxy struct {
	scheme, host    string
	upstream        *sluice.HostClient
	logger          sluice.Logger
	trustsForwarded bool // the clients are trusted proxies
}

func newProxy(upstream string, logger sluice.Logger) (*proxy, error) {
	u, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" {
		return nil, fmt.Errorf("%q is not http://HOST or https://HOST", upstream)
	}
	return &proxy{
		scheme: u.Scheme,
		host:   u.Host,
		logger: logger,
		upstream: &sluice.HostClient{
			Addr:                     u.Host,
			IsTLS:                    u.Scheme == "https",
			DialDualStack:            true,
			MaxConns:                 1024,
			MaxConnWaitTimeout:       10 * time.Second,
			ReadTimeout:              patience,
			StreamResponseBody:       true,
			DisablePathNormalizing:   true, // forward the path unchanged
			NoDefaultUserAgentHeader: true,
		},
	}, nil
}

// server returns a server that adds nothing to upstream's responses.
func (p *proxy) server() *sluice.Server {
	return &sluice.Server{
		Handler:               p.handle,
		StreamRequestBody:     true, // forward what has arrived
		ReadTimeout:           patience,
		WriteTimeout:          patience,
		IdleTimeout:           2 * patience,
		NoDefaultServerHeader: true,
		NoDefaultDate:         true,
		Logger:                p.logger,
	}
}

// handle forwards a request and answers with upstream's response.
//
// Shutdown ends ctx, and with it running requests. If that matters, let a load
// balancer redirect the traffic first.
func (p *proxy) handle(ctx *sluice.RequestCtx) {
	if ctx.IsConnect() {
		ctx.Error("this is no forward proxy", sluice.StatusNotImplemented)
		return
	}
	req := sluice.AcquireRequest()
	defer sluice.ReleaseRequest(req)
	p.forward(ctx, req)
	if protocol := upgradeOf(&ctx.Request.Header); protocol != "" {
		p.tunnel(ctx, req, protocol)
		return
	}
	if body := ctx.RequestBodyStream(); body != nil {
		req.SetBodyStream(upload{ctx, body}, ctx.Request.Header.ContentLength())
	}
	resp := sluice.AcquireResponse()
	if err := p.upstream.DoContext(ctx, req, resp); err != nil {
		sluice.ReleaseResponse(resp)
		p.fail(ctx, err)
		return
	}
	p.answer(ctx, resp)
}

// answer makes upstream's response ctx's response. The server reads the body when the
// handler has returned, and sends the result of each Read at once.
func (p *proxy) answer(ctx *sluice.RequestCtx, resp *sluice.Response) {
	resp.Header.CopyTo(&ctx.Response.Header)
	dropHopByHop(&ctx.Response.Header)
	ctx.Response.Header.SetProtocol([]byte("HTTP/1.1"))
	ctx.Response.Header.SetNoDefaultContentType(true)
	if !resp.IsBodyStream() { // no body: 204, 304, HEAD
		sluice.ReleaseResponse(resp)
		return
	}
	if resp.Header.ContentLength() < 0 {
		_ = ctx.Flush() // the body may begin much later; if the client is gone, copying fails
	}
	ctx.SetBodyStream(&download{ctx, resp}, resp.Header.ContentLength())
}

// fail answers in place of upstream.
func (p *proxy) fail(ctx *sluice.RequestCtx, err error) {
	var timeout interface{ Timeout() bool }
	status := sluice.StatusBadGateway
	switch {
	case ctx.Err() != nil: // the client has disconnected, or Shutdown was called
		status = sluice.StatusServiceUnavailable
	case errors.Is(err, sluice.ErrNoFreeConns):
		status = sluice.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		status = sluice.StatusGatewayTimeout
	}
	p.logger.Printf("%s %q: %v", ctx.Method(), ctx.RequestURI(), err)
	ctx.Error(sluice.StatusMessage(status), status) // err is not for clients
}

// upload is a request's body. It may take any time as a whole, but the client must
// keep sending.
type upload struct {
	ctx *sluice.RequestCtx
	io.Reader
}

// Read implements io.Reader.
func (u upload) Read(b []byte) (int, error) {
	if err := u.ctx.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	return u.Reader.Read(b)
}

// download is a response's body. The server closes it after its end, or when the
// client has disconnected.
type download struct {
	ctx  *sluice.RequestCtx
	resp *sluice.Response
}

// Read implements io.Reader. An error closes the connection to the client, so that it
// does not take the part for the whole.
func (d *download) Read(b []byte) (int, error) {
	n, err := d.resp.BodyStream().Read(b)
	if err == io.EOF { // now the trailer fields have arrived
		// Unchanged: setters could change fields of the head with the same names.
		section := d.resp.Header.TrailerHeader()
		_ = d.ctx.Response.Header.ReadTrailer(bufio.NewReaderSize(bytes.NewReader(section), len(section)))
	}
	return n, err
}

// Close implements io.Closer. It cancels the request if it is still running.
func (d *download) Close() error {
	err := d.resp.CloseBodyStream()
	sluice.ReleaseResponse(d.resp)
	return err
}
