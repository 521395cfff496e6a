package compact

import (
	"crypto/tls"
	"sync"
)

// Facts are what a program can ask about a TLS connection. Connections with equal facts share
// them.
type Facts struct {
	state tls.ConnectionState
	key   key // zero: they are of one connection
	users int // guarded by of.mu
	of    *Table
}

// A key has the facts that differ between connections without client certificates.
type key struct {
	version, suite uint16
	curve          tls.CurveID
	protocol, name string
	isResumed      bool
	isRetried      bool
	isEncrypted    bool // the ClientHello was
}

// keptFacts is how many facts a Table may keep without an open connection.
const keptFacts = 64

// A Table has the facts of open connections, so that they share them, and keeps some after the
// connections have ended. The zero value is ready to use.
type Table struct {
	mu   sync.Mutex
	all  map[key]*Facts
	last *Facts // one of all: what get returned last; nil: none
}

// get returns the facts of a connection. They are counted out by Drop.
func (f *Table) get(said *tls.ConnectionState) *Facts {
	if len(said.PeerCertificates) > 0 || len(said.SignedCertificateTimestamps) > 0 || len(said.OCSPResponse) > 0 {
		return &Facts{state: withoutExporter(said)}
	}
	k := key{
		version: said.Version, suite: said.CipherSuite, curve: said.CurveID, protocol: said.NegotiatedProtocol,
		name: said.ServerName, isResumed: said.DidResume, isRetried: said.HelloRetryRequest, isEncrypted: said.ECHAccepted,
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := f.last; last != nil && last.key == k {
		last.users++
		return last
	}
	one := f.all[k]
	if one == nil {
		one = &Facts{state: withoutExporter(said), key: k, of: f}
		if f.all == nil {
			f.all = map[key]*Facts{}
		}
		f.all[k] = one
	}
	f.last = one
	one.users++
	return one
}

// Drop counts a connection out.
func (s *Facts) Drop() {
	if s.of == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.users--; s.users == 0 && len(s.of.all) > keptFacts {
		delete(s.of.all, s.key)
		s.of.last = nil
	}
}

// ConnectionState returns what crypto/tls has said of the connection. Its ExportKeyingMaterial returns
// an error, because the secret that it needs is not kept.
func (s *Facts) ConnectionState() tls.ConnectionState { return s.state }

// stateWithoutExporter returns a state whose ExportKeyingMaterial fails: that of a connection
// that has agreed on nothing.
var stateWithoutExporter = sync.OnceValue(func() tls.ConnectionState {
	return tls.Server(nil, &tls.Config{}).ConnectionState()
})

// withoutExporter returns a copy of said whose ExportKeyingMaterial fails. With a copy of
// the function of said, it would keep the secrets of the connection in memory, or mix those
// of two connections that share their facts.
func withoutExporter(said *tls.ConnectionState) tls.ConnectionState {
	state := stateWithoutExporter()
	state.Version, state.HandshakeComplete, state.DidResume = said.Version, said.HandshakeComplete, said.DidResume
	state.CipherSuite, state.CurveID = said.CipherSuite, said.CurveID
	state.NegotiatedProtocol, state.NegotiatedProtocolIsMutual = said.NegotiatedProtocol, true
	state.ServerName, state.ECHAccepted = said.ServerName, said.ECHAccepted
	state.HelloRetryRequest = said.HelloRetryRequest
	state.PeerCertificates, state.VerifiedChains = said.PeerCertificates, said.VerifiedChains
	state.SignedCertificateTimestamps, state.OCSPResponse = said.SignedCertificateTimestamps, said.OCSPResponse
	return state
}
