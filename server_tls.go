package sluice

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime/debug"
	"slices"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// NextProto makes nph serve the connections on which the client chose the
// protocol key by ALPN (RFC 7301). Call it before serving begins.
func (s *Server) NextProto(key string, nph ServeHandler) {
	s.state.Lock()
	defer s.state.Unlock()
	if s.nextProtos == nil {
		s.nextProtos = make(map[string]ServeHandler)
	}
	s.nextProtos[key] = nph
}

// nextProto returns the handler of an ALPN protocol, nil if there is none.
func (s *Server) nextProto(key string) ServeHandler {
	if key == "" {
		return nil
	}
	s.state.Lock()
	defer s.state.Unlock()
	return s.nextProtos[key]
}

// ListenAndServeTLS serves HTTPS on the TCP address addr with the certificate
// chain and key in two PEM files. Both names may be empty if the certificates
// come from TLSConfig, AppendCert or AppendCertEmbed.
func (s *Server) ListenAndServeTLS(addr, certFile, keyFile string) error {
	ln, err := s.listen(addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	return s.ServeTLS(ln, certFile, keyFile)
}

// ListenAndServeTLSEmbed is ListenAndServeTLS with PEM data instead of files.
func (s *Server) ListenAndServeTLSEmbed(addr string, certData, keyData []byte) error {
	ln, err := s.listen(addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	return s.ServeTLSEmbed(ln, certData, keyData)
}

// ServeTLS is Serve over TLS with the certificate chain and key in two PEM
// files; see ListenAndServeTLS. ln is the listener below TLS. For a listener
// that makes TLS connections itself (tls.NewListener), use Serve; EnginePerConn
// always serves it.
func (s *Server) ServeTLS(ln net.Listener, certFile, keyFile string) error {
	if certFile != "" || keyFile != "" {
		if err := s.AppendCert(certFile, keyFile); err != nil {
			return err
		}
	}
	return s.serveTLS(ln)
}

// ServeTLSEmbed is ServeTLS with PEM data instead of files.
func (s *Server) ServeTLSEmbed(ln net.Listener, certData, keyData []byte) error {
	if len(certData) > 0 || len(keyData) > 0 {
		if err := s.AppendCertEmbed(certData, keyData); err != nil {
			return err
		}
	}
	return s.serveTLS(ln)
}

var errNoCertificate = errors.New("sluice: TLS needs a certificate: give files, data, or a TLSConfig that has one")

func (s *Server) serveTLS(ln net.Listener) error {
	s.state.Lock()
	config := engine.OfferProtocols(s.TLSConfig, !s.HTTP2.Disable, slices.Sorted(maps.Keys(s.nextProtos)))
	s.state.Unlock()
	if len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil {
		return errNoCertificate
	}
	return s.Serve(&engine.TLSListener{Listener: ln, Config: config, Compact: s.CompactTLS})
}

// AppendCert adds a certificate chain and key from PEM files to TLSConfig. The
// first certificate is the default; the server name selects the others. TLSConfig becomes a
// copy: the object that the program has set is not changed.
func (s *Server) AppendCert(certFile, keyFile string) error {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return fmt.Errorf("sluice: cannot load TLS key pair from %q and %q: %w", certFile, keyFile, err)
	}
	s.appendCertificate(cert)
	return nil
}

// AppendCertEmbed is AppendCert with PEM data instead of files.
func (s *Server) AppendCertEmbed(certData, keyData []byte) error {
	cert, err := tls.X509KeyPair(certData, keyData)
	if err != nil {
		return fmt.Errorf("sluice: cannot load TLS key pair from the given data (%d and %d bytes): %w", len(certData), len(keyData), err)
	}
	s.appendCertificate(cert)
	return nil
}

func (s *Server) appendCertificate(cert tls.Certificate) {
	s.state.Lock()
	defer s.state.Unlock()
	config := &tls.Config{}
	if s.TLSConfig != nil {
		config = s.TLSConfig.Clone()
	}
	config.Certificates = append(slices.Clip(config.Certificates), cert)
	s.TLSConfig = config
}

// GenerateTestCertificate returns a new self-signed certificate for host and
// its key, both in PEM. host is a name or an IP address, with or without
// brackets. The certificate is valid for a year. It may sign, so that tests can
// add it to their roots. Do not use it in production: no authority vouches for
// it.
func GenerateTestCertificate(host string) (certPEM, keyPEM []byte, err error) {
	return selfsigned.PEM(host)
}

// alpnConn is the engine.Protocol of a connection that negotiated another
// protocol than HTTP/1.1. It passes the connection to its ServeHandler before
// anything is read.
type alpnConn struct {
	engine.Leaver
	conn    engine.Conn
	cfg     *serverConfig
	handler ServeHandler
}

// Detached runs the ServeHandler.
func (a *alpnConn) Detached(conn net.Conn) {
	defer func() {
		if v := recover(); v != nil {
			a.cfg.logger.Printf("panic in protocol handler: %v\n%s", v, debug.Stack())
		}
		conn.Close()
	}()
	if err := a.handler(conn); err != nil {
		a.cfg.fail(err)
		a.cfg.logConnError(a.conn, err)
	}
}

// Closed implements engine.Protocol.
func (a *alpnConn) Closed(err error) {
	a.cfg.tellState(a.conn, StateClosed)
	if err != nil {
		a.cfg.logConnError(a.conn, err)
	}
}
