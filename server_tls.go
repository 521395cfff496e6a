package sluice

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/sluicehttp/sluice/internal/engine"
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
	return s.Serve(&engine.TLSListener{Listener: ln, Config: config})
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
