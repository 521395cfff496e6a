package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

const (
	// An authority counts what fails: Let's Encrypt allows five times an hour for each host.
	firstOrderPause = 2 * time.Minute
	mostOrderPause  = time.Hour
	// answerPatience bounds one exchange with the authority, mostAnswer what is read of it,
	// and mostReason what is logged of it.
	answerPatience = 30 * time.Second
	mostAnswer     = 1 << 20
	mostReason     = 400
	// challengePath is where an authority asks by HTTP (RFC 8555 section 8.3).
	challengePath = "/.well-known/acme-challenge/"
)

// orderer gets the certificates of --acme and renews them, when a third of their time is
// left. A fleet has one, in the master: so there is one order, however many workers there are.
type orderer struct {
	hosts   []string
	manager *autocert.Manager
	logger  *log.Logger
	issued  func() (*issued, error)
	cache   autocert.DirCache
}

// newOrderer returns the orderer of the options, which are complete.
func newOrderer(options acmeOptions, logger *log.Logger) (*orderer, error) {
	if err := options.openCache(); err != nil {
		return nil, err
	}
	o := &orderer{
		hosts:  options.hosts,
		logger: logger,
		issued: sync.OnceValues(func() (*issued, error) { return openIssued(options.hosts) }),
		cache:  autocert.DirCache(options.cache),
	}
	o.manager = &autocert.Manager{
		Prompt:     autocert.AcceptTOS, // the help of --acme says so
		HostPolicy: autocert.HostWhitelist(options.hosts...),
		Email:      options.email,
		Cache:      o,
		Client: &acme.Client{
			DirectoryURL: options.directory,
			UserAgent:    "sluice",
			HTTPClient:   &http.Client{Transport: &refusals{next: http.DefaultTransport, logger: logger}, Timeout: answerPatience},
		},
	}
	logger.Printf("certificates for %s are from %s, and kept in %s", strings.Join(options.hosts, ", "), options.directory, options.cache)
	return o, nil
}

// answers returns a handler that answers an authority that asks by HTTP, and has next
// answer all others.
func (o *orderer) answers(next sluice.RequestHandler) sluice.RequestHandler {
	answer := fasthttpadaptor.NewFastHTTPHandler(o.manager.HTTPHandler(nil))
	return func(ctx *sluice.RequestCtx) {
		if strings.HasPrefix(string(ctx.Path()), challengePath) {
			// autocert knows hosts without ports. Only authorities of one's own ask at others than 80.
			if name, _, err := net.SplitHostPort(string(ctx.Host())); err == nil {
				ctx.Request.Header.SetHost(name)
			}
			answer(ctx)
			return
		}
		next(ctx)
	}
}

// run sees to it that each host has a certificate, until ctx ends. The server serves. nil has no hosts.
func (o *orderer) run(ctx context.Context) {
	if o == nil {
		return
	}
	for _, host := range o.hosts {
		go o.obtain(ctx, host)
	}
}

// obtain gets a certificate from the cache or the authority. The manager renews it from then on.
func (o *orderer) obtain(ctx context.Context, host string) {
	hello := &tls.ClientHelloInfo{ServerName: host, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
	for pause := firstOrderPause; ; pause = min(2*pause, mostOrderPause) {
		_, err := o.manager.GetCertificate(hello)
		if err == nil {
			return
		}
		o.logger.Printf("no certificate for %s, trying again in %v: %v", host, pause, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Get implements autocert.Cache.
func (o *orderer) Get(ctx context.Context, key string) ([]byte, error) {
	data, err := o.cache.Get(ctx, key)
	if err == nil {
		o.publish(data)
	}
	return data, err
}

// Put implements autocert.Cache. A certificate is used even if it cannot be kept: the
// authority would count another one.
func (o *orderer) Put(ctx context.Context, key string, data []byte) error {
	isCertificate := o.publish(data)
	err := o.cache.Put(ctx, key, data)
	if err == nil {
		return nil
	}
	o.logger.Printf("cannot keep a certificate or a key: %v", err)
	if isCertificate {
		return nil
	}
	return err
}

// Delete implements autocert.Cache. What is published stays.
func (o *orderer) Delete(ctx context.Context, key string) error { return o.cache.Delete(ctx, key) }

// publish lets all processes use what has come from the cache or the authority, if it is a
// certificate with its key. What it is says the certificate, not the name in the cache.
func (o *orderer) publish(data []byte) (isCertificate bool) {
	cert, err := tls.X509KeyPair(data, data)
	if err != nil {
		return false
	}
	certificates, err := o.issued()
	isNew := false
	if err == nil {
		isNew, err = certificates.publish(data, &cert)
	}
	switch {
	case err != nil:
		o.logger.Printf("cannot use a certificate for %s: %v", strings.Join(cert.Leaf.DNSNames, ", "), err)
	case isNew && !isProof(&cert):
		o.logger.Printf("certificate %s", describe([]tls.Certificate{cert}))
	}
	return true
}

// refusals logs what goes wrong between this process and an authority. autocert renews on
// timers of its own, and does not report what has failed.
type refusals struct {
	next   http.RoundTripper
	logger *log.Logger

	mu    sync.Mutex
	last  string // was logged
	until time.Time
}

// RoundTrip implements http.RoundTripper.
func (r *refusals) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			r.log(fmt.Sprintf("cannot reach %s: %v", req.URL.Host, err))
		}
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if reason := refusal(resp.StatusCode, body); reason != "" {
		r.log(fmt.Sprintf("%s refuses: %.*s", req.URL.Host, mostReason, reason))
	}
	return resp, nil
}

// log logs a line, unless it was the last one, less than a minute ago: the client repeats
// what may succeed yet.
func (r *refusals) log(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if line == r.last && time.Now().Before(r.until) {
		return
	}
	r.last, r.until = line, time.Now().Add(time.Minute)
	r.logger.Print(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, line))
}

// acmeProblem says what has failed (RFC 8555 section 6.7).
type acmeProblem struct{ Type, Detail string }

// refusal returns the reason that an answer of an authority has for a refusal, "" if it is none.
func refusal(status int, body []byte) string {
	var said struct {
		acmeProblem
		Status     json.RawMessage // a number in a problem, a word in an object
		Identifier struct{ Value string }
		Error      *acmeProblem
		Challenges []struct {
			Type  string
			Error *acmeProblem
		}
	}
	err := json.Unmarshal(body, &said)
	switch {
	case status >= http.StatusBadRequest && (err != nil || said.Detail == ""):
		return http.StatusText(status)
	case status >= http.StatusBadRequest && strings.HasSuffix(said.Type, ":badNonce"): // it is sent again
		return ""
	case status >= http.StatusBadRequest:
		return said.Detail
	case err != nil || string(said.Status) != `"invalid"`:
		return ""
	}
	for _, c := range said.Challenges {
		if c.Error != nil {
			return fmt.Sprintf("%s for %s: %s", c.Type, said.Identifier.Value, c.Error.Detail)
		}
	}
	if said.Error != nil {
		return said.Error.Detail
	}
	return ""
}
