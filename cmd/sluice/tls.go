package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/spf13/pflag"
)

// mostPEM bounds what the master passes on to the workers; they read longer files
// themselves.
const mostPEM = 32 << 10

// tlsOptions are the flags that make the server one of HTTPS.
type tlsOptions struct {
	certFile, keyFile string
	isSelfSigned      bool
	isCompact         bool
	// pem is what was in the files when they were read last and were sound; empty:
	// they are read.
	pem []byte
}

func (o *tlsOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.certFile, "tls-cert", "", "serve HTTPS with the certificate chain in `FILE` (PEM)")
	flags.StringVar(&o.keyFile, "tls-key", "", "the private key for --tls-cert, in `FILE` (PEM)")
	flags.BoolVar(&o.isSelfSigned, "tls-self-signed", false, "serve HTTPS with a certificate made at start")
	flags.BoolVar(&o.isCompact, "compact-tls", false, "keep idle connections of TLS 1.3 in little memory, and over restarts")
}

func (o *tlsOptions) check() error {
	switch {
	case o.certFile != "" && o.keyFile == "":
		return errors.New("--tls-cert needs --tls-key")
	case o.keyFile != "" && o.certFile == "":
		return errors.New("--tls-key needs --tls-cert")
	case o.certFile != "" && o.isSelfSigned:
		return errors.New("--tls-self-signed and --tls-cert exclude each other")
	case o.isCompact && !o.isOn():
		return errors.New("--compact-tls needs --tls-cert or --tls-self-signed")
	}
	return nil
}

// load returns the certificates that the options ask for, nil if they ask for
// none. A self-signed one is for host.
func (o *tlsOptions) load(host string) (*certificates, error) {
	c := &certificates{certFile: o.certFile, keyFile: o.keyFile}
	switch {
	case o.isSelfSigned:
		certPEM, keyPEM, err := sluice.GenerateTestCertificate(host)
		if err != nil {
			return nil, fmt.Errorf("cannot make a certificate: %w", err)
		}
		cert, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("cannot make a certificate: %w", err)
		}
		c.current.Store(&cert)
		return c, nil
	case len(o.pem) > 0:
		cert, err := tls.X509KeyPair(o.pem, o.pem)
		if err != nil {
			return nil, fmt.Errorf("cannot use %s with %s: %w", o.certFile, o.keyFile, err)
		}
		c.current.Store(&cert)
		return c, nil
	case o.certFile != "":
		return c, c.reload()
	}
	return nil, nil
}

// readPEM returns what is in the files, the certificates first, if they are a pair;
// nothing if there are none, or too much to pass on.
func (o *tlsOptions) readPEM() ([]byte, error) {
	if o.certFile == "" {
		return nil, nil
	}
	certPEM, err := os.ReadFile(o.certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(o.keyFile)
	if err != nil {
		return nil, err
	}
	pem := append(append(certPEM, '\n'), keyPEM...)
	if _, err := tls.X509KeyPair(pem, pem); err != nil {
		return nil, fmt.Errorf("cannot use %s with %s: %w", o.certFile, o.keyFile, err)
	}
	if len(pem) > mostPEM {
		return nil, nil
	}
	return pem, nil
}

// certificates is the certificate that handshakes use, which may be replaced.
// nil stands for no TLS.
type certificates struct {
	certFile, keyFile string // empty: it was made at start
	current           atomic.Pointer[tls.Certificate]
}

// config returns the configuration of a server with the certificate.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}

// reloads reports whether the certificate comes from files.
func (c *certificates) reloads() bool { return c != nil && c.certFile != "" }

// reload reads the files. If they are no pair, the certificate stays what it
// was.
func (c *certificates) reload() error {
	cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("cannot use %s with %s: %w", c.certFile, c.keyFile, err)
	}
	c.current.Store(&cert)
	return nil
}

// describe says what the certificate is for and how long it is valid.
func (c *certificates) describe() string {
	leaf := c.current.Load().Leaf
	if leaf == nil {
		return "unknown"
	}
	names := append([]string(nil), leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	text := fmt.Sprintf("for %s until %s", strings.Join(names, ", "), leaf.NotAfter.Format(time.DateOnly))
	if time.Now().After(leaf.NotAfter) {
		text += ", which is over"
	}
	return text
}
