package prefork

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// A port that the system has found stays ours until workers have it.
func TestChosenPortIsKept(t *testing.T) {
	s, err := (&Prefork{Network: "tcp4"}).newSockets("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.probe(); err != nil {
		t.Fatal(err)
	}
	addr := s.endpoints[0].address
	isTaken := func() bool {
		ln, err := net.Listen("tcp4", addr)
		if err == nil {
			ln.Close()
		}
		return errors.Is(err, syscall.EADDRINUSE)
	}
	if !isTaken() {
		t.Error("another can take the port after the probe")
	}
	for slot := range 2 {
		files, err := s.open(slot)
		if err != nil {
			t.Fatal(err)
		}
		defer files[0].Close()
	}
	if got := s.addresses(); len(got) != 1 || got[0].String() != addr {
		t.Errorf("slots listen on %v, and %s was found", got, addr)
	}
	s.close()
	if !isTaken() {
		t.Error("the slots' sockets are gone")
	}
	unused, err := (&Prefork{Network: "tcp4"}).newSockets("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := unused.probe(); err != nil {
		t.Fatal(err)
	}
	addr = unused.endpoints[0].address
	if unused.close(); isTaken() {
		t.Error("a socket that no slot has taken is left open")
	}
}
