package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/spf13/pflag"
	"golang.org/x/crypto/acme"

	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// mostPEM bounds what the master passes on to the workers; they read longer files
// themselves.
const mostPEM = 32 << 10

// watchPeriod is how often the files of certificates are looked at.
const watchPeriod = 10 * time.Second

// tlsOptions are the flags that make the server one of HTTPS.
type tlsOptions struct {
	certFiles, keyFiles []string // pairs
	isSelfSigned        bool
	isCompact           bool
	hsts                time.Duration // 0: the server does not say that it has HTTPS only
	redirect            string        // the address that leads to HTTPS; "": none
	acme                acmeOptions
	// pem is what was in the files when they were read last and were sound; empty:
	// they are read.
	pem []byte
}

func (o *tlsOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.certFiles, "tls-cert", nil, "serve HTTPS with the certificate chain in `FILE` (PEM), which is read again when it changes; may be repeated: the client's server name chooses, and the first one is for all others")
	flags.StringArrayVar(&o.keyFiles, "tls-key", nil, "the private key for --tls-cert, in `FILE` (PEM); as many as these")
	flags.BoolVar(&o.isSelfSigned, "tls-self-signed", false, "serve HTTPS with a certificate made at start")
	o.acme.addFlags(flags)
	flags.BoolVar(&o.isCompact, "compact-tls", false, "keep idle connections of TLS 1.3 in little memory, and over restarts")
	flags.StringVar(&o.redirect, "https-redirect", "", "with TLS: listen on `ADDR`, HOST:PORT, too, and lead plain HTTP to HTTPS; with --acme, the authority is answered there")
	flags.Var(cli.SecondsOf(&o.hsts, 0), "hsts", "with TLS: tell browsers to use HTTPS only, for so long (Strict-Transport-Security)")
}

func (o *tlsOptions) check() error {
	switch {
	case len(o.certFiles) > len(o.keyFiles):
		return errors.New("--tls-cert needs --tls-key")
	case len(o.keyFiles) > len(o.certFiles):
		return errors.New("--tls-key needs --tls-cert")
	case len(o.certFiles) > 0 && o.isSelfSigned:
		return errors.New("--tls-self-signed and --tls-cert exclude each other")
	case o.acme.isOn() && (len(o.certFiles) > 0 || o.isSelfSigned):
		return errors.New("--acme gets certificates: --tls-cert and --tls-self-signed exclude it")
	case o.isCompact && !o.isOn():
		return errors.New("--compact-tls needs --tls-cert, --tls-self-signed or --acme")
	case (o.hsts != 0 || o.redirect != "") && !o.isOn():
		return errors.New("--hsts and --https-redirect need --tls-cert, --tls-self-signed or --acme")
	case o.hsts < 0:
		return errors.New("--hsts takes a duration")
	case o.redirect != "":
		if err := checkAddr("--https-redirect", o.redirect); err != nil {
			return err
		}
	}
	return o.acme.complete()
}

// load returns the certificates that the options ask for, nil if they ask for
// none. A self-signed one is for host.
func (o *tlsOptions) load(host string) (*certificates, error) {
	c := &certificates{certFiles: o.certFiles, keyFiles: o.keyFiles}
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
		c.current.Store(&[]tls.Certificate{cert})
		return c, nil
	case len(o.pem) > 0:
		cert, err := tls.X509KeyPair(o.pem, o.pem)
		if err != nil {
			return nil, fmt.Errorf("cannot use %s with %s: %w", o.certFiles[0], o.keyFiles[0], err)
		}
		c.current.Store(&[]tls.Certificate{cert})
		_ = c.reload() // the files may be newer than pem, or faulty, or of root
		return c, nil
	case len(o.certFiles) > 0:
		return c, c.reload()
	case o.acme.isOn():
		var err error
		c.issued, err = openIssued(o.acme.hosts)
		return c, err
	}
	return nil, nil
}

// readPEM returns what is in the files, the certificates first, if they are a pair;
// nothing if there are none, or too much to pass on. Of several pairs it only checks that they
// are pairs.
func (o *tlsOptions) readPEM() ([]byte, error) {
	if len(o.certFiles) != 1 {
		_, err := o.loadFiles()
		return nil, err
	}
	certPEM, err := os.ReadFile(o.certFiles[0])
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(o.keyFiles[0])
	if err != nil {
		return nil, err
	}
	pem := append(append(certPEM, '\n'), keyPEM...)
	if _, err := tls.X509KeyPair(pem, pem); err != nil {
		return nil, fmt.Errorf("cannot use %s with %s: %w", o.certFiles[0], o.keyFiles[0], err)
	}
	if len(pem) > mostPEM {
		return nil, nil
	}
	return pem, nil
}

// certificates are those that handshakes use, which may be replaced. nil stands for no TLS.
type certificates struct {
	certFiles, keyFiles []string                          // empty: it was made at start, or is issued
	current             atomic.Pointer[[]tls.Certificate] // at least one, unless issued has them
	issued              *issued                           // nil without --acme

	mu    sync.Mutex
	stamp string // of the files when they were last looked at
}

// config returns the configuration of a server with the certificates.
func (c *certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.choose}
}

// giveTo has a server use the certificates. It does not serve yet.
func (c *certificates) giveTo(s *sluice.Server) {
	s.TLSConfig = c.config()
	if c.issued != nil {
		// The certificate was all that the authority wanted (RFC 8737 section 3).
		s.NextProto(acme.ALPNProto, func(net.Conn) error { return nil })
	}
}

// choose returns the first certificate that suits the client, or the first one.
func (c *certificates) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.issued != nil {
		return c.issued.choose(hello)
	}
	all := *c.current.Load()
	for i := range all {
		if len(all) > 1 && hello.SupportsCertificate(&all[i]) == nil {
			return &all[i], nil
		}
	}
	return &all[0], nil
}

// all returns the certificates that there are.
func (c *certificates) all() []tls.Certificate {
	switch {
	case c == nil:
		return nil
	case c.issued != nil:
		return c.issued.all()
	}
	return *c.current.Load()
}

// reloads reports whether the certificates come from files.
func (c *certificates) reloads() bool { return c != nil && len(c.certFiles) > 0 }

// reload reads the files. If any two are no pair, all certificates stay what they were.
func (c *certificates) reload() error {
	c.isChanged()
	var all []tls.Certificate
	for i := range c.certFiles {
		cert, err := tls.LoadX509KeyPair(c.certFiles[i], c.keyFiles[i])
		if err != nil {
			return fmt.Errorf("cannot use %s with %s: %w", c.certFiles[i], c.keyFiles[i], err)
		}
		all = append(all, cert)
	}
	c.current.Store(&all)
	return nil
}

// isChanged reports whether the files are others than at its last call.
func (c *certificates) isChanged() bool {
	var stamp strings.Builder
	for _, name := range append(append([]string(nil), c.certFiles...), c.keyFiles...) {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintln(&stamp, info.ModTime().UnixNano(), info.Size())
		} else {
			fmt.Fprintln(&stamp, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.stamp
	c.stamp = stamp.String()
	return c.stamp != was
}

// watch reloads the certificates when their files change, and after a failure, until ctx ends. A
// failure may be of the process, as a lack of descriptors, and a file may have the size and the
// time of the one before.
func (c *certificates) watch(ctx context.Context, period time.Duration, logger *log.Logger) {
	if !c.reloads() {
		return
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	failure := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if c.isChanged() || failure != "" {
				failure = c.reloadLogged(logger, failure)
			}
		}
	}
}

// reloadLogged is reload, and says what it has done, but not a failure that was said. It returns
// the failure; "" if there is none.
func (c *certificates) reloadLogged(logger *log.Logger, said string) (failure string) {
	if err := c.reload(); err != nil {
		if failure = err.Error(); failure != said {
			logger.Printf("the certificate stays as it was: %v", err)
		}
		return failure
	}
	logger.Printf("certificate reloaded: %s", describe(c.all()))
	return ""
}

// describe says what certificates are for and how long they are valid.
func describe(certs []tls.Certificate) string {
	var texts []string
	for _, cert := range certs {
		leaf := cert.Leaf
		if leaf == nil {
			texts = append(texts, "unknown")
			continue
		}
		names := append([]string(nil), leaf.DNSNames...)
		for _, ip := range leaf.IPAddresses {
			names = append(names, ip.String())
		}
		if len(names) == 0 { // clients do not look at its CommonName
			names = []string{"no host"}
		}
		text := fmt.Sprintf("for %s until %s", strings.Join(names, ", "), leaf.NotAfter.Format(time.DateOnly))
		if time.Now().After(leaf.NotAfter) {
			text += ", which is over"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
