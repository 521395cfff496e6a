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
	// TicketRotation is the interval at which a master should call
	// [TicketKeys.Rotate]. A ticket is valid for two to three intervals.
	TicketRotation = 12 * time.Hour
)

// TicketKeys are the keys of TLS session tickets. With shared keys, a client can
// resume its session with any worker, without a full handshake. There are three
// keys: the first encrypts new tickets, and all three decrypt.
//
// Crash rule: a crash does not change them.
type TicketKeys struct {
	config *Config
	mu     sync.Mutex // held while current is replaced
	// current is a configuration of which only the keys are used.
	current atomic.Pointer[ticketConfig]
}

type ticketConfig struct {
	tls.Config
	version uint64
}

// TicketKeys returns the keys of that name; the first process creates them.
// Errors: [ErrName], [ErrFull], [ErrMismatch], [ErrBusy].
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

// Rotate adds a new first key and removes the last one. Only one process should
// call it, the master; see [TicketRotation]. The error is [ErrBusy].
func (t *TicketKeys) Rotate() error {
	return t.config.change(func() ([]byte, bool) {
		old, _ := t.config.Load(nil)
		return append(randomKeys(1), old[:min(len(old), (ticketKeyCount-1)*ticketKeyBytes)]...), true
	})
}

// RotateEvery calls [TicketKeys.Rotate] at each interval, until ctx ends. An
// interval of zero or less is [TicketRotation].
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
			_ = t.Rotate() // after ErrBusy, the next tick tries again
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

// Install makes config and its clones use the keys, also after a rotation: each
// ticket that is made or read checks for new keys, which costs one atomic load.
// Call Install once, before config is used. A configuration that config's
// GetConfigForClient returns is cloned, and the clone uses the keys too.
//
// If config has tickets disabled, or already has WrapSession or UnwrapSession,
// Install does not change it and returns false.
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
	if len(keys) > 0 { // without keys the segment is damaged: tls makes its own
		current.SetSessionTicketKeys(keys)
	}
	t.current.Store(current)
	return current
}
