package programs

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
)

// shimOptions are what the runner's flags ask for.
type shimOptions struct {
	port        int
	certFile    string
	keyFile     string
	resumptions int // connections after the first
	readSize    int
	ocsp        []byte
	writesFirst bool
	shutsDown   bool // the connection at once, without an answer
	checksClose bool // what the runner sends until it ends
	config      *tls.Config

	first, resumed shimWants
}

// shimWants are what a connection must be. The zero value is any.
type shimWants struct {
	protocol, name string
	curve          tls.CurveID
	isRetried      bool // by a HelloRetryRequest
	isNotRetried   bool
	isNotResumed   bool
}

// check returns how a connection is not what it must be.
func (w *shimWants) check(state *tls.ConnectionState) error {
	switch {
	case w.protocol != "" && w.protocol != state.NegotiatedProtocol:
		return fmt.Errorf("the protocol is %q", state.NegotiatedProtocol)
	case w.name != "" && w.name != state.ServerName:
		return fmt.Errorf("the server's name is %q", state.ServerName)
	case w.curve != 0 && w.curve != state.CurveID:
		return fmt.Errorf("the curve is %v", state.CurveID)
	case w.isRetried && !state.HelloRetryRequest, w.isNotRetried && state.HelloRetryRequest:
		return fmt.Errorf("a HelloRetryRequest: %t", state.HelloRetryRequest)
	case w.isNotResumed && state.DidResume:
		return errors.New("the session was resumed")
	}
	return nil
}

// parseShim returns an error for flags that ask for what the shim, crypto/tls or a server has
// not.
func parseShim(args []string) (*shimOptions, error) {
	o := &shimOptions{readSize: 16 << 10, config: &tls.Config{MinVersion: tls.VersionTLS10}}
	f := flag.NewFlagSet("shim", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	isServer := f.Bool("server", false, "")
	f.IntVar(&o.port, "port", 0, "")
	f.StringVar(&o.certFile, "cert-file", "", "")
	f.StringVar(&o.keyFile, "key-file", "", "")
	f.IntVar(&o.resumptions, "resume-count", 0, "")
	f.IntVar(&o.readSize, "read-size", o.readSize, "")
	f.BoolVar(&o.writesFirst, "shim-writes-first", false, "")
	f.BoolVar(&o.writesFirst, "read-with-unfinished-write", false, "")
	f.BoolVar(&o.shutsDown, "shim-shuts-down", false, "")
	f.BoolVar(&o.checksClose, "check-close-notify", false, "")
	// What is so in any case, or concerns the API of BoringSSL only: the engine never waits, TLS
	// 1.3 has no sessions without tickets, and cannot renegotiate.
	for _, name := range []string{"async", "expect-no-session-id", "implicit-handshake", "peek-then-read", "renegotiate-freely"} {
		f.Bool(name, false, "")
	}
	f.Func("expect-early-data-reason", "", func(v string) error {
		if v != "disabled" {
			return errors.ErrUnsupported
		}
		return nil
	})
	f.Func("ocsp-response", "", func(v string) (err error) {
		o.ocsp, err = base64.StdEncoding.DecodeString(v)
		return err
	})
	f.Func("min-version", "", setNumber(&o.config.MinVersion))
	f.Func("max-version", "", setNumber(&o.config.MaxVersion))
	for _, name := range []string{"no-tls1", "no-tls11", "no-tls12"} { // the client's choice is TLS 1.3 anyway
		f.Bool(name, false, "")
	}
	f.Func("curves", "", func(v string) error {
		var curve tls.CurveID
		err := setNumber(&curve)(v)
		o.config.CurvePreferences = append(o.config.CurvePreferences, curve)
		return err
	})
	f.Func("select-alpn", "", func(v string) error { o.config.NextProtos = []string{v}; return nil })
	f.BoolVar(&o.config.SessionTicketsDisabled, "no-ticket", false, "")
	f.BoolFunc("verify-peer", "", func(string) error { o.config.ClientAuth = tls.RequestClientCert; return nil })
	f.BoolFunc("require-any-client-certificate", "", func(string) error { o.config.ClientAuth = tls.RequireAnyClientCert; return nil })
	f.BoolVar(&o.resumed.isNotResumed, "expect-session-miss", false, "")
	for prefix, of := range map[string][]*shimWants{"": {&o.first, &o.resumed}, "on-initial-": {&o.first}, "on-resume-": {&o.resumed}} {
		each := func(set func(w *shimWants, v string) error) func(string) error {
			return func(v string) (err error) {
				for _, w := range of {
					err = set(w, v)
				}
				return err
			}
		}
		f.BoolFunc(prefix+"expect-hrr", "", each(func(w *shimWants, _ string) error { w.isRetried = true; return nil }))
		f.BoolFunc(prefix+"expect-no-hrr", "", each(func(w *shimWants, _ string) error { w.isNotRetried = true; return nil }))
		f.Func(prefix+"expect-alpn", "", each(func(w *shimWants, v string) error { w.protocol = v; return nil }))
		f.Func(prefix+"expect-server-name", "", each(func(w *shimWants, v string) error { w.name = v; return nil }))
		f.Func(prefix+"expect-curve-id", "", each(func(w *shimWants, v string) error { return setNumber(&w.curve)(v) }))
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if !*isServer || o.config.MaxVersion != 0 && o.config.MaxVersion < tls.VersionTLS13 {
		return nil, errors.ErrUnsupported
	}
	return o, nil
}

// setNumber returns what sets to from a flag's value.
func setNumber[T ~uint16](to *T) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseUint(v, 10, 16)
		*to = T(n)
		return err
	}
}
