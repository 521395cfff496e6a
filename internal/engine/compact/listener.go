package compact

import (
	"bytes"
	"crypto/fips140"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// A Listener makes handshakes tell their secrets, by the log of keys of crypto/tls. Each has a
// configuration of its own that tells them, so they cannot be another's: who knows the random
// of a ClientHello can use it again.
type Listener struct {
	config *tls.Config
	choose func(*tls.ClientHelloInfo) (*tls.Config, error) // the program's; nil: it chooses none
	facts  Table
	spare  sync.Pool // of *Handshake that have ended and are not referred to
}

// A Carrier is the connection below crypto/tls while that makes a handshake for a Listener.
type Carrier interface {
	net.Conn
	// CompactHandshake returns the Handshake that sees what is read, and is asked whether it
	// withholds what is written.
	CompactHandshake() *Handshake
}

// Obstacle returns why no connection with a configuration, which may be nil, can be compact;
// nil if nothing is known that hinders it.
func Obstacle(config *tls.Config) error {
	switch {
	case fips140.Enforced():
		return errFIPS
	case config != nil && config.GetConfigForClient == nil && config.MaxVersion != 0 && config.MaxVersion < tls.VersionTLS13:
		return errVersion
	}
	return nil
}

var (
	errFIPS    = errors.New("sluice: FIPS 140-3 is enforced, so that crypto/tls must keep the connections")
	errVersion = errors.New("sluice: TLSConfig allows no TLS 1.3")
)

// NewListener returns a Listener for connections with a configuration, which it copies; nil
// if there is an Obstacle.
func NewListener(config *tls.Config) *Listener {
	if Obstacle(config) != nil {
		return nil
	}
	l := &Listener{config: config.Clone(), choose: config.GetConfigForClient}
	l.config.GetConfigForClient = l.configFor
	return l
}

// Config returns the configuration for the handshakes. The connections that use it must be over
// a Carrier.
func (l *Listener) Config() *tls.Config { return l.config }

// extensionModes is that of clients that can use a ticket: psk_key_exchange_modes (RFC 8446
// section 4.2.9).
const extensionModes = 45

// proofRoom is enough for the record that crypto/tls makes as proof, and for a copy.
const proofRoom = 2 * (1 + tls13.Overhead)

// Begin returns the Handshake of a new connection.
func (l *Listener) Begin() *Handshake {
	if h, ok := l.spare.Get().(*Handshake); ok {
		return h
	}
	return &Handshake{listener: l, proof: make([]byte, 0, proofRoom)}
}

// configFor returns the configuration of one handshake: a copy of the program's choice, or of
// the Listener's configuration. A copy of the program's choice is made for each handshake, because
// the program may have set new ticket keys. A copy of the Listener's is reused with its Handshake,
// because the Listener's never changes. If the program has set no keys, crypto/tls uses the
// Listener's, and replaces them in time.
func (l *Listener) configFor(hello *tls.ClientHelloInfo) (chosen *tls.Config, err error) {
	if l.choose != nil {
		chosen, err = l.choose(hello)
	}
	if err != nil || !slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
		return chosen, err
	}
	h := hello.Conn.(Carrier).CompactHandshake()
	if slices.Contains(hello.Extensions, extensionModes) {
		h.tickets = 1
	}
	if chosen != nil {
		h.log.program = chosen.KeyLogWriter
		chosen = chosen.Clone() // others are using it
		chosen.KeyLogWriter = &h.log
		return chosen, nil
	}
	h.log.program = l.config.KeyLogWriter
	if h.config == nil {
		h.config = l.config.Clone()
		h.config.KeyLogWriter = &h.log
	}
	return h.config, nil
}

const secretSize = 48 // of the largest secret

// secrets are those of both directions after one handshake.
type secrets struct{ in, out secret }

type secret struct {
	bytes [secretSize]byte
	size  int
}

// A keyLog is the KeyLogWriter of one handshake.
type keyLog struct {
	told    secrets
	program io.Writer // the program's; nil: it wants none
}

var (
	labelIn        = []byte("CLIENT_TRAFFIC_SECRET_0 ")
	labelOut       = []byte("SERVER_TRAFFIC_SECRET_0 ")
	space, newline = []byte(" "), []byte("\n")
)

// Write implements io.Writer. p is one line: a label, the random of the ClientHello, a secret.
// crypto/tls has made it for this call, so it is overwritten, unless the program gets it.
func (k *keyLog) Write(p []byte) (int, error) {
	if rest, ok := bytes.CutPrefix(p, labelIn); ok {
		k.told.in.set(secondWord(rest))
	} else if rest, ok = bytes.CutPrefix(p, labelOut); ok {
		k.told.out.set(secondWord(rest))
	}
	if k.program == nil {
		clear(p)
		return len(p), nil
	}
	return k.program.Write(p)
}

func secondWord(line []byte) []byte {
	_, word, _ := bytes.Cut(line, space)
	return bytes.TrimSuffix(word, newline)
}

// set stores a secret in hexadecimal digits, unless it is none.
func (s *secret) set(digits []byte) {
	s.size = 0
	if len(digits) > 2*secretSize {
		return
	}
	if n, err := hex.Decode(s.bytes[:], digits); err == nil {
		s.size = n
	}
}
