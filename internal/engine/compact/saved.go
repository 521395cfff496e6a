package compact

import (
	"crypto/fips140"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

const (
	// SavedVersion is the first byte of what Append makes. A change of the format changes it.
	SavedVersion = 1
	// maxSaved bounds what Append makes: connections whose client has sent many certificates
	// stay where they are.
	maxSaved = 24 << 10
	maxCerts = 64 // of one connection, with those of its chains
)

const (
	savedResumed = 1 << iota
	savedRetried
	savedEncrypted
)

// ErrSaved is returned for bytes that Append has not made, or another version of it, and in a
// process that may have no compact connections.
var ErrSaved = errors.New("sluice: the saved TLS connection is malformed, or not allowed here")

// CanSave reports whether the facts fit into what Append makes.
func (s *Facts) CanSave() bool {
	size, certs := s.savedSize()
	return size <= maxSaved && certs <= maxCerts
}

// savedSize returns how many bytes Append needs at most, and the number of certificates.
func (s *Facts) savedSize() (size, certs int) {
	size = tls13.StateSize + len(s.state.ServerName) + len(s.state.NegotiatedProtocol) + 64
	all := s.certificates()
	for _, c := range all {
		size += len(c.Raw) + binary.MaxVarintLen32
	}
	for _, chain := range s.state.VerifiedChains {
		size += len(chain) + 1
	}
	return size, len(all)
}

// certificates returns those of the peer, and then the others of the chains, each once.
func (s *Facts) certificates() []*x509.Certificate {
	all := slices.Clone(s.state.PeerCertificates)
	for _, chain := range s.state.VerifiedChains {
		for _, c := range chain {
			if !slices.ContainsFunc(all, c.Equal) {
				all = append(all, c)
			}
		}
	}
	return all
}

// Append appends a connection that pauses to dst, for Table.Parse in another process. It is
// as secret as the state.
func (s *Facts) Append(dst []byte, state *tls13.State) []byte {
	size, _ := s.savedSize()
	dst = slices.Grow(dst, size) // growing later would leave a copy of the secrets
	dst = append(dst, SavedVersion)
	dst = state.Append(dst)
	said := &s.state
	dst = binary.BigEndian.AppendUint16(dst, said.Version)
	dst = binary.BigEndian.AppendUint16(dst, said.CipherSuite)
	dst = binary.BigEndian.AppendUint16(dst, uint16(said.CurveID))
	dst = append(dst, savedFlags(said))
	dst = appendBytes(dst, []byte(said.NegotiatedProtocol))
	dst = appendBytes(dst, []byte(said.ServerName))
	certs := s.certificates()
	dst = binary.AppendUvarint(dst, uint64(len(said.PeerCertificates)))
	dst = binary.AppendUvarint(dst, uint64(len(certs)))
	for _, c := range certs {
		dst = appendBytes(dst, c.Raw)
	}
	dst = binary.AppendUvarint(dst, uint64(len(said.VerifiedChains)))
	for _, chain := range said.VerifiedChains {
		dst = binary.AppendUvarint(dst, uint64(len(chain)))
		for _, c := range chain {
			dst = binary.AppendUvarint(dst, uint64(slices.IndexFunc(certs, c.Equal)))
		}
	}
	return dst
}

func savedFlags(said *tls.ConnectionState) (flags byte) {
	if said.DidResume {
		flags |= savedResumed
	}
	if said.HelloRetryRequest {
		flags |= savedRetried
	}
	if said.ECHAccepted {
		flags |= savedEncrypted
	}
	return flags
}

func appendBytes(dst, p []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(p))), p...)
}

// CanParse reports whether p seems to be what Append has made, of this version, in a process
// that may have compact connections.
func CanParse(p []byte) bool {
	return len(p) >= 1+tls13.StateSize && len(p) <= maxSaved && p[0] == SavedVersion && !fips140.Enforced()
}

// Parse reads what Append has made. The error is ErrSaved, or that of a certificate.
func (f *Table) Parse(p []byte) (state tls13.State, facts *Facts, err error) {
	if !CanParse(p) {
		return state, nil, ErrSaved
	}
	state, err = tls13.ParseState(p[1 : 1+tls13.StateSize])
	if err != nil {
		return state, nil, ErrSaved
	}
	said, err := parseFacts(p[1+tls13.StateSize:])
	if err != nil {
		state.Erase()
		return state, nil, err
	}
	return state, f.get(said), nil
}

// A savedReader reads a part after the other. After a malformed one it is broken.
type savedReader struct {
	rest     []byte
	isBroken bool
}

func (r *savedReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.rest, r.isBroken = nil, true
		return nil
	}
	p := r.rest[:n]
	r.rest = r.rest[n:]
	return p
}

func (r *savedReader) uint16() uint16 {
	if p := r.take(2); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}

// number reads one up to most.
func (r *savedReader) number(most int) int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(most) {
		r.rest, r.isBroken = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *savedReader) bytes() []byte { return r.take(uint64(r.number(maxSaved))) }

func parseFacts(p []byte) (*tls.ConnectionState, error) {
	r := &savedReader{rest: p}
	said := &tls.ConnectionState{HandshakeComplete: true, Version: r.uint16(), CipherSuite: r.uint16(), CurveID: tls.CurveID(r.uint16())}
	if flags := r.take(1); flags != nil {
		said.DidResume, said.HelloRetryRequest, said.ECHAccepted = flags[0]&savedResumed != 0, flags[0]&savedRetried != 0, flags[0]&savedEncrypted != 0
	}
	said.NegotiatedProtocol, said.ServerName = string(r.bytes()), string(r.bytes())
	ofPeer := r.number(maxCerts)
	var certs []*x509.Certificate
	for range r.number(maxCerts) {
		c, err := x509.ParseCertificate(r.bytes())
		if r.isBroken {
			return nil, ErrSaved
		}
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if ofPeer > len(certs) {
		return nil, ErrSaved
	}
	said.PeerCertificates = certs[:ofPeer:ofPeer]
	for range r.number(maxSaved) {
		var chain []*x509.Certificate
		for range r.number(maxCerts) {
			i := r.number(maxCerts)
			if i >= len(certs) {
				return nil, ErrSaved
			}
			chain = append(chain, certs[i])
		}
		if r.isBroken {
			return nil, ErrSaved
		}
		said.VerifiedChains = append(said.VerifiedChains, chain)
	}
	if r.isBroken || len(r.rest) > 0 {
		return nil, ErrSaved
	}
	return said, nil
}
