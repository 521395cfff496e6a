package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpproxy"
	"github.com/sluicehttp/sluice/http3"
)

// exitHTTPError is the exit status for a response that --fail takes for a
// failure; curl has the same.
const exitHTTPError = 22

// statusError says that --fail takes a response for a failure.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("the server answered %d %s", int(e), sluice.StatusMessage(int(e)))
}

var errInterrupted = errors.New("interrupted")

// runGet does what o says and returns the exit status.
func runGet(ctx context.Context, o getOptions) int {
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	if o.maxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.maxTime, fmt.Errorf("the %v of --max-time are over", o.maxTime))
		defer cancel()
	}
	g, err := newGetter(ctx, o)
	if err == nil {
		err = g.run()
	}
	if err == nil {
		return 0
	}
	if !o.silent || o.showError {
		fmt.Fprintln(os.Stderr, "sluice:", err)
	}
	var status statusError
	if errors.As(err, &status) && o.fail {
		return exitHTTPError
	}
	return 1
}

// untilInterrupted returns a context that ends with the first Ctrl-C or SIGTERM.
// The second one ends the process.
func untilInterrupted(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// getter does requests.
type getter struct {
	o      getOptions
	ctx    context.Context
	client sluice.Client
	phases *phases       // of the present request
	report *statusReport // of --verbose and --trace
}

func newGetter(ctx context.Context, o getOptions) (*getter, error) {
	g := &getter{o: o, ctx: ctx, report: &statusReport{w: os.Stderr, isVerbose: o.verbose}}
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	g.client.TLSConfig = config
	dial, err := o.dialer()
	if err != nil {
		return nil, err
	}
	g.client.DialTimeout = func(addr string, _ time.Duration) (net.Conn, error) { return g.phases.dial(dial, addr) }
	if o.http2 {
		g.client.ConfigureClient = func(hc *sluice.HostClient) error {
			hc.HTTP2 = sluice.HTTP2Only
			if hc.IsTLS {
				hc.HTTP2 = sluice.HTTP2Auto
			}
			return nil
		}
	}
	if o.http3 || o.http3Only {
		if g.client.Transport, err = o.http3Transport(); err != nil {
			return nil, err
		}
		g.client.DialDualStack = true
	}
	g.client.StreamResponseBody = true
	g.client.DisablePathNormalizing = true // the URL is what the user has typed
	g.client.Name = "sluice-get"
	return g, nil
}

// http3Transport returns what sends requests over HTTP/3, too.
func (o *getOptions) http3Transport() (sluice.RoundTripper, error) {
	target, err := url.Parse(o.url)
	if err != nil {
		return nil, err
	}
	if !o.hasProxy {
		proxy, err := httpproxy.FromEnvironment().ProxyFunc()(target)
		if proxy != nil || err != nil {
			return nil, fmt.Errorf("the environment names a proxy, through which QUIC does not go: --proxy '' goes without")
		}
	}
	if o.http3Only {
		return &http3.Transport{Mode: http3.Only}, nil
	}
	return &http3.Transport{Mode: http3.Prefer}, nil
}

// dialFunc connects to addr until ctx ends.
type dialFunc = func(ctx context.Context, addr string) (net.Conn, error)

// dialer returns what connects: through --proxy, or as the environment says.
func (o *getOptions) dialer() (dialFunc, error) {
	direct := &fasthttpproxy.Dialer{Timeout: o.connectTimeout, DialDualStack: true}
	switch {
	case !o.hasProxy:
		dial, err := direct.GetDialContextFunc(true)
		if err != nil {
			return nil, fmt.Errorf("the proxies of the environment: %w", err)
		}
		return dial, nil
	case o.proxy == "":
		return direct.DialContext, nil
	}
	through := fasthttpproxy.FasthttpHTTPDialerDualStackTimeout(o.proxy, o.connectTimeout)
	return func(_ context.Context, addr string) (net.Conn, error) { return through(addr) }, nil
}

// tlsConfig returns what --insecure and --cacert ask for.
func (o *getOptions) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{
		InsecureSkipVerify: o.insecure,
		ClientSessionCache: tls.NewLRUClientSessionCache(0),
	}
	if o.caFile == "" {
		return config, nil
	}
	text, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, fmt.Errorf("--cacert: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--cacert: there is no certificate in %s", o.caFile)
	}
	return config, nil
}

// run does all requests.
func (g *getter) run() error {
	defer g.client.CloseIdleConnections()
	for range g.o.repeat {
		if err := g.once(); err != nil {
			return err
		}
	}
	return nil
}

// hop is a request of a chain of redirects.
type hop struct {
	url            *url.URL
	method         string
	hasBody        bool
	hasCredentials bool // what the user gave is for this origin
}

// once does one request, with its redirects, and delivers the response.
func (g *getter) once() error {
	target, err := url.Parse(g.o.url)
	if err != nil {
		return err
	}
	at := hop{url: target, method: g.o.method, hasBody: len(g.o.data) > 0, hasCredentials: true}
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	for followed := 0; ; followed++ {
		g.phases = newPhases(g.ctx, g.o.connectTimeout, g.report)
		if err := g.send(at, req, resp); err != nil {
			return err
		}
		next, isRedirect, err := at.next(resp)
		switch {
		case err != nil:
			return err
		case !g.o.follow || !isRedirect:
			return g.finish(resp)
		case followed == g.o.maxRedirects:
			return fmt.Errorf("there are more than %d redirects (--max-redirs)", g.o.maxRedirects)
		case next.hasBody && readsStdin(g.o.data):
			return fmt.Errorf("the redirect to %s asks for the body once more, and stdin has been read", next.url)
		}
		if err := g.leave(resp); err != nil {
			return err
		}
		at = next
	}
}

// finish delivers a response and tells how long it took.
func (g *getter) finish(resp *sluice.Response) error {
	defer g.phases.cancel(nil)
	n, err := g.deliver(resp)
	if g.o.trace {
		g.report.phases(g.phases, resp, n)
	}
	return err
}

// send sends the request of a hop, and reads the head of the response.
func (g *getter) send(at hop, req *sluice.Request, resp *sluice.Response) error {
	if err := g.prepare(at, req); err != nil {
		return err
	}
	if err := g.client.DoContext(g.phases.context(req), req, resp); err != nil {
		if g.o.trace {
			g.report.phases(g.phases, nil, 0)
		}
		return g.phases.explain(err)
	}
	g.report.response(resp)
	return nil
}

// prepare makes req the request of a hop.
func (g *getter) prepare(at hop, req *sluice.Request) error {
	req.Reset()
	req.SetRequestURI(at.url.String())
	h := &req.Header
	h.SetMethod(at.method)
	h.Set("Accept", "*/*")
	h.SetUserAgent(g.o.agent)
	if g.o.user != "" && at.hasCredentials {
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(g.o.user)))
	}
	if g.o.compressed {
		h.Set("Accept-Encoding", "gzip, br, zstd, deflate")
	}
	if g.o.byteRange != "" {
		h.Set("Range", "bytes="+g.o.byteRange)
	}
	if at.hasBody {
		h.SetContentType("application/x-www-form-urlencoded")
	}
	g.setHeaders(at, req)
	if at.hasBody {
		return setBody(g.ctx, req, g.o.data)
	}
	return nil
}

// setHeaders sets what --header says. The first field of a name replaces the
// usual one.
func (g *getter) setHeaders(at hop, req *sluice.Request) {
	h := &req.Header
	seen := map[string]bool{}
	for _, text := range g.o.headers {
		name, value, isLeftOut := splitHeader(text)
		key := strings.ToLower(name)
		switch {
		case !at.hasCredentials && isForOrigin(key):
		case !at.hasBody && len(g.o.data) > 0 && strings.HasPrefix(key, "content-"):
		case isLeftOut:
			h.Del(name)
			if key == "user-agent" {
				g.client.Name, g.client.NoDefaultUserAgentHeader = "", true
			}
			if key == "content-type" {
				h.SetNoDefaultContentType(true)
			}
		case key == "host":
			req.UseHostHeader = true
			h.SetHost(value)
		case seen[key]:
			h.Add(name, value)
		default:
			h.Set(name, value)
			seen[key] = true
		}
	}
}

// isForOrigin reports whether a field, in lower case, was meant for one origin.
func isForOrigin(name string) bool {
	switch name {
	case "authorization", "cookie", "proxy-authorization", "host":
		return true
	}
	return false
}

// next returns the request that a redirect asks for (RFC 9110 section 15.4).
func (at hop) next(resp *sluice.Response) (next hop, isRedirect bool, err error) {
	status := resp.StatusCode()
	location := resp.Header.Peek("Location")
	if !sluice.StatusCodeIsRedirect(status) || len(location) == 0 {
		return at, false, nil
	}
	next = at
	if next.url, err = at.url.Parse(string(location)); err != nil {
		return at, false, fmt.Errorf("the redirect leads nowhere: %w", err)
	}
	next.url.User = nil
	if scheme := next.url.Scheme; scheme != "http" && scheme != "https" || next.url.Host == "" {
		return at, false, fmt.Errorf("the redirect to %s is neither http nor https", next.url)
	}
	isPost := at.method == "POST" && (status == 301 || status == 302)
	if isPost || status == 303 && at.method != "HEAD" {
		next.method, next.hasBody = "GET", false
	}
	next.hasCredentials = at.hasCredentials && origin(at.url) == origin(next.url)
	return next, true, nil
}

// origin returns scheme, host and port.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" && u.Scheme == "http" {
		port = "80"
	} else if port == "" {
		port = "443"
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// appendHead appends the head of a response: what came, and nothing that a
// server would add.
func appendHead(dst []byte, resp *sluice.Response) []byte {
	h := &resp.Header
	h.SetNoDefaultContentType(true)
	dst = fmt.Appendf(dst, "%s %d %s\r\n", h.Protocol(), h.StatusCode(), h.StatusMessage())
	for name, value := range h.All() {
		dst = fmt.Appendf(dst, "%s: %s\r\n", name, value)
	}
	return append(dst, "\r\n"...)
}

// maxLeft is how much is read of a body that nobody wants, to use its connection
// again.
const maxLeft = 64 << 10

// leave ends a response whose body is not wanted.
func (g *getter) leave(resp *sluice.Response) error {
	defer g.phases.cancel(nil)
	if g.o.include || g.o.head {
		if _, err := os.Stdout.Write(appendHead(nil, resp)); err != nil {
			return err
		}
	}
	if resp.IsBodyStream() {
		io.CopyN(io.Discard, resp.BodyStream(), maxLeft)
		resp.CloseBodyStream()
	}
	if g.o.trace {
		g.report.phases(g.phases, resp, 0)
	}
	return nil
}
