package tcp

import (
	"log"
	"reflect"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// TestDefaults checks the defaults of a Server's zero fields.
func TestDefaults(t *testing.T) {
	got := (&Server{}).config()
	if got.logger == nil || got.logger != log.Default() {
		t.Errorf("the default logger is %v, not package log's", got.logger)
	}
	want := &config{logger: got.logger, maxBuffer: 64 << 10, maxPending: 64 << 10}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got, want := (&Server{}).engineOptions(), (engine.Options{HandshakeTimeout: 10 * time.Second}); !reflect.DeepEqual(got, want) {
		t.Errorf("the engine gets %+v\nwant %+v", got, want)
	}
}

// TestConfig: the fields of a Server are passed to connections and engine.
func TestConfig(t *testing.T) {
	s := &Server{
		IdleTimeout: 1, ReadTimeout: 2, WriteTimeout: 3, HandshakeTimeout: 4, KeepAlivePeriod: 5,
		MaxConns: 6, MaxConnsPerIP: 7, IPv6ClientPrefix: 48, MaxBuffer: 8, MaxPending: 9, ReadBufferSize: 10, MaxWorkers: 11, Loops: 12,
	}
	got := s.config()
	want := &config{
		logger: got.logger, idleTimeout: 1, readTimeout: 2, writeTimeout: 3,
		maxConns: 6, perIP: engine.AddressLimit{Conns: 7, PrefixIPv6: 48}, maxBuffer: 8, maxPending: 9,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got, want := s.engineOptions(), (engine.Options{
		HandshakeTimeout: 4, KeepAlivePeriod: 5, ReadBufferSize: 10, MaxWorkers: 11, Loops: 12,
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("the engine gets %+v\nwant %+v", got, want)
	}
}

// TestNegativeConfig: negative times mean none, negative sizes the default.
func TestNegativeConfig(t *testing.T) {
	s := &Server{IdleTimeout: -1, ReadTimeout: -1, WriteTimeout: -1, HandshakeTimeout: -1, MaxBuffer: -1, MaxPending: -1}
	got := s.config()
	want := &config{logger: got.logger, maxBuffer: 64 << 10, maxPending: 64 << 10}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if o := s.engineOptions(); o.HandshakeTimeout != 0 {
		t.Errorf("the engine gets the handshake time-out %v, want none", o.HandshakeTimeout)
	}
}
