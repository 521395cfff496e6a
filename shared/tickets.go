package shared

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"
)

const (
	ticketKeyCount = 3
	ticketKeyBytes = 32
	// TicketRotation is how often a master should call [TicketKeys.Rotate]. A
	// ticket can be used for at least two of these times, at most three.
	TicketRotation = 12 * time.Hour
)

// TicketKeys are the keys of TLS session tickets: with them, a client that comes
// back resumes its session with any worker, without a full handshake. There are
// three; the first one makes new tickets, all of them are understood.
//
// Crash rule: they stay as they are.
type TicketKeys struct {
	config *Config
	mu     sync.Mutex // held while current is replaced
	// current is a configuration that is used for nothing but its keys.
	current atomic.Pointer[ticketConfig]
}

type ticketConfig struct {
	tls.Config
	version uint64
}

// TicketKeys returns the keys of that name; whoever is first makes them. Errors:
// [ErrName], [ErrFull], [ErrMismatch], [ErrBusy].
func (s *Segment) TicketKeys(name string) (*TicketKeys, error) {
	config, err := s.openConfig(name, kindTicketKeys, ticketKeyCount*ticketKeyBytes)
	if err != nil {
		return nil, err
	}
	t := &TicketKeys{config: config}
	if config.Version() > 0 {
		return t, nil
	}
	err = config.change(func() ([]byte, bool) {
		return randomKeys(ticketKeyCount), config.Version() == 0 // else another process was faster
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func randomKeys(n int) []byte {
	keys := make([]byte, n*ticketKeyBytes)
	_, _ = rand.Read(keys) // never fails
	return keys
}

// Rotate puts a new key in front and forgets the last one. One process calls it,
// the master: see [TicketRotation]. The error is [ErrBusy].
func (t *TicketKeys) Rotate() error {
	return t.config.change(func() ([]byte, bool) {
		old, _ := t.config.Load(nil)
		return append(randomKeys(1), old[:min(len(old), (ticketKeyCount-1)*ticketKeyBytes)]...), true
	})
}

// RotateEvery calls [TicketKeys.Rotate] each time that interval has passed, until
// ctx ends. Zero is [TicketRotation].
func (t *TicketKeys) RotateEvery(ctx context.Context, interval time.Duration) {
	if interval <= 0 {
		interval = TicketRotation
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = t.Rotate() // busy: the next time then
		}
	}
}

// Version changes when the keys do.
func (t *TicketKeys) Version() uint64 { return t.config.Version() }

// Keys returns the keys, for tls.Config.SetSessionTicketKeys.
func (t *TicketKeys) Keys() [][32]byte {
	keys, _ := t.keys()
	return keys
}

func (t *TicketKeys) keys() (keys [][ticketKeyBytes]byte, version uint64) {
	data, version := t.config.Load(nil)
	for ; len(data) >= ticketKeyBytes; data = data[ticketKeyBytes:] {
		keys = append(keys, [ticketKeyBytes]byte(data))
	}
	return keys, version
}

// Install has config, and its clones, use the keys, also after they have been
// rotated: each ticket that is made or read looks whether they have changed,
// which costs a load from memory. It must be called before config is used, and
// once. A configuration that config's GetConfigForClient returns is cloned and
// gets the keys too.
//
// A config that has tickets disabled, or that has WrapSession or UnwrapSession of
// its own, is left alone, and Install returns false.
func (t *TicketKeys) Install(config *tls.Config) bool {
	if !t.install(config) {
		return false
	}
	if forClient := config.GetConfigForClient; forClient != nil {
		config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := forClient(hello)
			if chosen == nil || err != nil {
				return chosen, err
			}
			chosen = chosen.Clone() // others may be using it
			t.install(chosen)
			return chosen, nil
		}
	}
	return true
}

func (t *TicketKeys) install(config *tls.Config) bool {
	if config.SessionTicketsDisabled || config.WrapSession != nil || config.UnwrapSession != nil {
		return false
	}
	config.WrapSession = func(state tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		return t.latest().EncryptTicket(state, session)
	}
	config.UnwrapSession = func(ticket []byte, state tls.ConnectionState) (*tls.SessionState, error) {
		return t.latest().DecryptTicket(ticket, state)
	}
	return true
}

// latest returns a configuration with the latest keys.
func (t *TicketKeys) latest() *ticketConfig {
	current := t.current.Load()
	if current != nil && current.version == t.config.Version() {
		return current
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	keys, version := t.keys()
	current = &ticketConfig{version: version}
	if len(keys) > 0 { // else damaged: keys of this process only
		current.SetSessionTicketKeys(keys)
	}
	t.current.Store(current)
	return current
}
