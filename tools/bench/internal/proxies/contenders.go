package proxies

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A contender is a proxy that is alive.
type contender struct {
	kind, addr string
	process    interface {
		TreeMemory() (process.TreeMemory, error)
		TreeUsage() (process.Usage, error)
		Stop() error
	}
	settle func() error // collects its garbage; nil: it has none
}

// What a proxy does not have, or the machine.
var (
	errNoHTTP2   = errors.New("it has no HTTP/2")
	errBuffers   = errors.New("it waits for the end of a response, and has no upgrades")
	errSettles   = errors.New("it is a program that collects no garbage when it is told to")
	errNoHAProxy = errors.New("haproxy is not installed (Debian: package haproxy)")
	errNoTraefik = errors.New("traefik is not installed")
)

// isAbsence reports whether an error means that a proxy has no such case here.
func isAbsence(err error) bool {
	for _, absence := range []error{errNoHTTP2, errBuffers, errSettles, errNoHAProxy, errNoTraefik} {
		if errors.Is(err, absence) {
			return true
		}
	}
	return false
}

// need is what a case needs of a proxy.
type need struct{ tls, http2, streams bool }

// start starts a proxy before an upstream, with its files in a folder. An error that
// isAbsence means that it has no such case here. Idle streams are measured in package proxy, in a
// process of this program, which collects its garbage when it is told to.
func (o *options) start(ctx context.Context, kind, upstream, folder string, n need) (*contender, error) {
	switch kind {
	case nginxKind:
		program, addr, err := nginx.Start(ctx, folder, nginx.Options{CPU: proxyCPU, To: upstream, TLS: n.tls, HTTP2: n.http2})
		if err != nil {
			return nil, err
		}
		return &contender{kind: kind, addr: addr, process: program}, nil
	case ours:
		if !n.streams {
			return startProgram(ctx, kind, o.program, upstream, folder, n.tls)
		}
	case before:
		if n.streams {
			return nil, errSettles
		}
		return startProgram(ctx, kind, o.before, upstream, folder, n.tls)
	case haproxy, traefik:
		program, err := nginx.Find(kind)
		switch {
		case err == nil:
			return startProgram(ctx, kind, program, upstream, folder, n.tls)
		case kind == haproxy:
			return nil, errNoHAProxy
		}
		return nil, errNoTraefik
	case fiber:
		if n.http2 {
			return nil, errNoHTTP2
		}
		if n.streams {
			return nil, errBuffers
		}
	}
	server, err := process.StartService(ctx, process.Options{CPU: proxyCPU, Procs: 1}, proxyRole, proxyConfig{Kind: kind, To: upstream, TLS: n.tls})
	if err != nil {
		return nil, err
	}
	return &contender{kind: kind, addr: server.Addr, process: server, settle: server.Settle}, nil
}

// startProgram starts a proxy that is a program with flags, or with a file of configuration.
func startProgram(ctx context.Context, kind, program, upstream, folder string, overTLS bool) (*contender, error) {
	addr, err := process.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	certificate := ""
	if overTLS {
		certificate = filepath.Join(folder, "certificate.pem")
		chain, key, err := sluice.GenerateTestCertificate("127.0.0.1")
		if err := errors.Join(err, os.WriteFile(certificate, append(chain, key...), 0o600)); err != nil {
			return nil, err
		}
	}
	configure := sluiceArguments
	switch kind {
	case haproxy:
		configure = haproxyFiles
	case traefik:
		configure = traefikFiles
	}
	arguments, err := configure(folder, addr, upstream, certificate)
	if err != nil {
		return nil, err
	}
	p, err := process.StartServer(ctx, proxyCPU, addr, program, arguments...)
	if err != nil {
		return nil, err
	}
	if kind == traefik {
		awaitRoutes(ctx, addr, overTLS)
	}
	return &contender{kind: kind, addr: addr, process: p}, nil
}

// awaitRoutes waits until Traefik has read its routes, as it does after it has begun to listen.
// Until then it answers 404. What is wrong after some seconds is said by the first measurement.
func awaitRoutes(ctx context.Context, addr string, overTLS bool) {
	scheme := "http://"
	if overTLS {
		scheme = "https://"
	}
	client := &sluice.Client{TLSConfig: &tls.Config{InsecureSkipVerify: true}}
	defer client.CloseIdleConnections()
	for range 100 {
		status, _, err := client.GetTimeout(nil, scheme+addr+"/", time.Second)
		if err == nil && status != sluice.StatusNotFound || ctx.Err() != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// sluiceArguments returns those of "sluice proxy". A process on one CPU has one P.
func sluiceArguments(_, addr, upstream, certificate string) ([]string, error) {
	arguments := []string{"proxy", "--listen", addr, "--to", "http://" + upstream, "--max-conns", strconv.Itoa(maxUpstream), "--engine", "epoll"}
	if certificate != "" {
		arguments = append(arguments, "--tls-cert", certificate, "--tls-key", certificate)
	}
	return arguments, nil
}

// haproxyFiles writes a configuration with one thread, and no log, and returns the command's
// arguments. maxconn is small because HAProxy wants descriptors for all.
func haproxyFiles(folder, addr, upstream, certificate string) (arguments []string, err error) {
	bind, scheme := addr, "http"
	if certificate != "" {
		bind, scheme = addr+" ssl crt "+certificate+" alpn h2,http/1.1 ssl-min-ver TLSv1.3", "https"
	}
	file := filepath.Join(folder, "haproxy.cfg")
	return []string{"-q", "-db", "-f", file}, os.WriteFile(file, fmt.Appendf(nil, `global
	nbthread 1
	maxconn 6000
defaults
	mode http
	timeout connect 5s
	timeout client 1h
	timeout server 1h
	timeout tunnel 1h
	http-reuse always
	option forwardfor
frontend clients
	bind %s
	http-request set-header X-Forwarded-Host %%[req.hdr(Host)]
	http-request set-header X-Forwarded-Proto %s
	default_backend upstream
backend upstream
	server one %s
`, bind, scheme, upstream), 0o600)
}

// traefikFiles writes the two configurations of Traefik, without an access log, and returns the
// command's argument.
func traefikFiles(folder, addr, upstream, certificate string) (arguments []string, err error) {
	routes, file, certificates := filepath.Join(folder, "routes.yml"), filepath.Join(folder, "traefik.yml"), ""
	dynamic := fmt.Sprintf(`http:
  routers:
    all: {rule: "PathPrefix(`+"`/`"+`)", service: upstream%s}
  services:
    upstream:
      loadBalancer:
        serversTransport: pool
        servers: [{url: "http://%s"}]
  serversTransports:
    pool: {maxIdleConnsPerHost: %d}
`, map[bool]string{true: ", tls: {}"}[certificate != ""], upstream, maxUpstream)
	if certificate != "" {
		certificates = fmt.Sprintf("tls:\n  certificates: [{certFile: %q, keyFile: %q}]\n", certificate, certificate)
	}
	err = errors.Join(
		os.WriteFile(routes, []byte(dynamic+certificates), 0o600),
		os.WriteFile(file, fmt.Appendf(nil, "log: {level: ERROR}\nglobal: {checkNewVersion: false, sendAnonymousUsage: false}\nentryPoints:\n  all: {address: %q}\nproviders:\n  file: {filename: %q}\n", addr, routes), 0o600))
	return []string{"--configFile=" + file}, err
}
