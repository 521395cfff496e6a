package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluicehttp/sluice"
)

// withHSTS tells browsers to use HTTPS only (RFC 6797).
func withHSTS(next sluice.RequestHandler, age time.Duration) sluice.RequestHandler {
	value := fmt.Sprintf("max-age=%d", int64(age.Seconds()))
	return func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.Set("Strict-Transport-Security", value) // it may flush
		next(ctx)
		ctx.Response.Header.Set("Strict-Transport-Security", value) // or reset the response
	}
}

// mostRedirected bounds the connections of --https-redirect. With --prefork the master has them,
// and needs its descriptors to start workers.
const mostRedirected = 1000

// startRedirect serves --https-redirect until the result is called. HTTPS is on to. orders answers an
// authority; nil: there is none.
func (o *serveOptions) startRedirect(ctx context.Context, to string, orders *orderer, logger *log.Logger) (stop func(), err error) {
	if o.tls.redirect == "" {
		return func() {}, nil
	}
	ln, err := listen(ctx, o.tls.redirect)
	if err != nil {
		return nil, err
	}
	s := o.newServer()
	s.Logger, s.Handler, s.Concurrency = logger, redirectTo(to), mostRedirected
	if orders != nil {
		s.Handler = orders.answers(s.Handler)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	logger.Printf("http://%s leads to HTTPS", ln.Addr())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.ShutdownWithContext(ctx) // what it has not answered then gets no answer
		ln.Close()
		<-served
	}, nil
}

// redirectTo leads a request to the same URL with https and the port of addr.
func redirectTo(addr string) sluice.RequestHandler {
	_, port, err := net.SplitHostPort(addr)
	if number, lookupErr := net.LookupPort("tcp", port); err == nil && lookupErr == nil && number != 0 {
		port = strconv.Itoa(number)
	}
	return func(ctx *sluice.RequestCtx) {
		host := string(ctx.Host())
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if host == "" {
			ctx.Error("Host is missing", sluice.StatusBadRequest)
			return
		}
		if len(host) > 1 && host[0] == '[' {
			host = host[1 : len(host)-1]
		}
		if port != "443" {
			host = net.JoinHostPort(host, port)
		} else if net.ParseIP(host) != nil && net.ParseIP(host).To4() == nil {
			host = "[" + host + "]"
		}
		// The request line may have the whole URL, or "*".
		path, query := string(ctx.URI().PathOriginal()), ctx.URI().QueryString()
		if !strings.HasPrefix(path, "/") {
			path = "/"
		}
		if len(query) > 0 {
			path += "?" + string(query)
		}
		ctx.SetConnectionClose() // the client goes on with another one
		ctx.Response.Header.Set("Location", "https://"+host+path)
		ctx.SetStatusCode(sluice.StatusPermanentRedirect)
	}
}

// certificateAges is a metric of certificates, of which there may be none.
type certificateAges struct{ current func() *certificates }

func (certificateAges) desc() *prometheus.Desc {
	return prometheus.NewDesc("sluice_tls_certificate_expiry_seconds", "When a certificate ends, in seconds since 1970.", []string{"name"}, nil)
}

// Describe implements prometheus.Collector.
func (a certificateAges) Describe(out chan<- *prometheus.Desc) { out <- a.desc() }

// Collect implements prometheus.Collector.
func (a certificateAges) Collect(out chan<- prometheus.Metric) {
	seen := make(map[string]bool)
	for _, cert := range a.current().all() {
		if cert.Leaf == nil {
			continue
		}
		name := cert.Leaf.Subject.CommonName
		if len(cert.Leaf.DNSNames) > 0 {
			name = cert.Leaf.DNSNames[0]
		} else if len(cert.Leaf.IPAddresses) > 0 {
			name = cert.Leaf.IPAddresses[0].String()
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		out <- prometheus.MustNewConstMetric(a.desc(), prometheus.GaugeValue, float64(cert.Leaf.NotAfter.Unix()), name)
	}
}
