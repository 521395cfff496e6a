package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/shared"
	"golang.org/x/crypto/acme"
)

const (
	// issuedRoom and proofRoom are for a certificate with its chain and key, as PEM.
	issuedRoom = mostPEM
	proofRoom  = 4 << 10
	// issuedPatience is how long a client waits for the first certificate, and issuedPause
	// how often it is looked for.
	issuedPatience = 10 * time.Second
	issuedPause    = 20 * time.Millisecond
	// proofExtension is in certificates that show an authority whose host this is (RFC 8737
	// section 6.1).
	proofExtension = "1.3.6.1.5.5.7.1.31"
)

// issued are the certificates of --acme. They are in the memory that the processes of a
// fleet share: the master gets them, and the workers, who may be another user, need neither
// the folder of the cache nor the key of the account.
type issued struct {
	hosts []issuedHost
}

// issuedHost has the certificate of a host, and the one that proves whose the host is.
type issuedHost struct {
	name  string
	chain issuedPlace
	proof issuedPlace
}

// issuedPlace is where a certificate and its key are.
type issuedPlace struct {
	config *shared.Config
	parsed atomic.Pointer[issuedVersion]
}

// issuedVersion is what a place had when it was read last.
type issuedVersion struct {
	number uint64
	cert   *tls.Certificate // nil: none
}

// openIssued returns the certificates of hosts, which this process or another one publishes.
func openIssued(hosts []string) (*issued, error) {
	segment := shared.Default()
	if prefork.IsChild() && !segment.IsShared() {
		return nil, errors.New("workers have no memory in common here: --acme works without --prefork")
	}
	s := &issued{hosts: make([]issuedHost, len(hosts))}
	for i, name := range hosts {
		h := &s.hosts[i]
		h.name = name
		var err error
		if h.chain.config, err = segment.Config(fmt.Sprintf("sluice.acme.%d", i), issuedRoom); err != nil {
			return nil, err
		}
		if h.proof.config, err = segment.Config(fmt.Sprintf("sluice.acme.%d.proof", i), proofRoom); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// publish lets all processes use a certificate with its key. It reports whether it is a new one for one of the hosts.
func (s *issued) publish(pem []byte, cert *tls.Certificate) (isNew bool, err error) {
	for i := range s.hosts {
		h := &s.hosts[i]
		if cert.Leaf.VerifyHostname(h.name) != nil {
			continue
		}
		place := &h.chain
		if isProof(cert) {
			place = &h.proof
		}
		if before := place.load(); before != nil && slices.EqualFunc(before.Certificate, cert.Certificate, slices.Equal[[]byte]) {
			return false, nil
		}
		return true, place.config.Store(pem)
	}
	return false, nil
}

// isProof reports whether a certificate is one for an authority.
func isProof(cert *tls.Certificate) bool {
	for _, e := range cert.Leaf.Extensions {
		if e.Id.String() == proofExtension {
			return true
		}
	}
	return false
}

// choose returns the certificate for a client. If there is none yet, the client waits for a
// while. Other hosts are refused (unrecognized_name). A client that names no host, as many
// checks of health, gets the first one.
func (s *issued) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := s.host(hello.ServerName)
	if host == nil {
		return nil, nil
	}
	if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
		return host.proof.load(), nil
	}
	if cert := host.chain.load(); cert != nil {
		return cert, nil
	}
	return host.await(hello.Context())
}

// host returns the host of a name, the first one without a name, nil for others.
func (s *issued) host(name string) *issuedHost {
	if name == "" {
		return &s.hosts[0]
	}
	for i := range s.hosts {
		if strings.EqualFold(s.hosts[i].name, name) {
			return &s.hosts[i]
		}
	}
	return nil
}

// await waits for the first certificate of a host.
func (h *issuedHost) await(ctx context.Context) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, issuedPatience)
	defer cancel()
	ticker := time.NewTicker(issuedPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("there is no certificate for %s yet", h.name)
		case <-ticker.C:
			if cert := h.chain.load(); cert != nil {
				return cert, nil
			}
		}
	}
}

// all returns the certificates that there are.
func (s *issued) all() (certs []tls.Certificate) {
	for i := range s.hosts {
		if cert := s.hosts[i].chain.load(); cert != nil {
			certs = append(certs, *cert)
		}
	}
	return certs
}

// load returns the certificate of a place, nil if there is none.
func (p *issuedPlace) load() *tls.Certificate {
	last := p.parsed.Load()
	if last != nil && last.number == p.config.Version() {
		return last.cert
	}
	pem, number := p.config.Load(nil)
	next := &issuedVersion{number: number}
	if cert, err := tls.X509KeyPair(pem, pem); err == nil {
		next.cert = &cert
	}
	p.parsed.Store(next)
	return next.cert
}
