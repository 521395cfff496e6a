package compact

import (
	"bytes"
	"crypto/fips140"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"sync"
)

const (
	randomSize = 32
	secretSize = 48 // of the largest secret
)

// A Listener knows the handshakes that are under way. crypto/tls tells it their secrets by
// the log of keys: each line has the random of the ClientHello and a secret.
type Listener struct {
	config *tls.Config
	log    io.Writer // the program's; nil: it wants none
	facts  Table

	mu      sync.Mutex
	waiting map[[randomSize]byte]*entry
}

// An entry has the secrets of the handshakes with one random. Clients choose it: an attacker
// who has read a ClientHello could replace the secrets of its connection by his own. So none is
// compact of those that have the same random at the same time.
type entry struct {
	handshakes int
	isShared   bool // also if a secret was told twice
	secrets
}

// secrets are those of one handshake: of its server's records, and of both directions after
// it.
type secrets struct{ handshake, in, out secret }

type secret struct {
	bytes [secretSize]byte
	size  int
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
	l := &Listener{config: config.Clone(), log: config.KeyLogWriter, waiting: map[[randomSize]byte]*entry{}}
	l.config.KeyLogWriter = l
	return l
}

// Config returns the configuration for the handshakes. Only connections with a Handshake may
// use it.
func (l *Listener) Config() *tls.Config { return l.config }

// register notes that a handshake with a random is under way.
func (l *Listener) register(random [randomSize]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.waiting[random]
	if e == nil {
		e = &entry{}
		l.waiting[random] = e
	}
	e.handshakes++
	e.isShared = e.handshakes > 1 || e.isShared
}

// take ends a handshake, and returns what was told for its random. It is empty if it is not
// known whose it is.
func (l *Listener) take(random [randomSize]byte) secrets {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.waiting[random]
	if e.handshakes--; e.handshakes == 0 {
		delete(l.waiting, random)
	}
	if e.isShared {
		return secrets{}
	}
	told := e.secrets
	*e = entry{}
	return told
}

// Write implements io.Writer for tls.Config.KeyLogWriter. p is one line.
func (l *Listener) Write(p []byte) (int, error) {
	label, rest, _ := bytes.Cut(p, []byte(" "))
	switch string(label) {
	case "SERVER_HANDSHAKE_TRAFFIC_SECRET":
		l.note(rest, func(e *entry) *secret { return &e.handshake })
	case "CLIENT_TRAFFIC_SECRET_0":
		l.note(rest, func(e *entry) *secret { return &e.in })
	case "SERVER_TRAFFIC_SECRET_0":
		l.note(rest, func(e *entry) *secret { return &e.out })
	}
	if l.log == nil {
		return len(p), nil
	}
	return l.log.Write(p)
}

// note stores the secret of a line, if it is of a handshake that is under way.
func (l *Listener) note(rest []byte, of func(*entry) *secret) {
	hexRandom, hexSecret, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
	var random [randomSize]byte
	if len(hexRandom) != 2*randomSize || len(hexSecret) > 2*secretSize {
		return
	}
	if _, err := hex.Decode(random[:], hexRandom); err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.waiting[random]
	if e == nil {
		return
	}
	s := of(e)
	if s.size > 0 {
		e.isShared = true
		return
	}
	n, err := hex.Decode(s.bytes[:], hexSecret)
	if err == nil {
		s.size = n
	}
}
