package listen

import (
	"net"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

func TestIsMultipath(t *testing.T) {
	multipath, err := nettest.ListenMultipath()
	if err != nil {
		t.Skip(err)
	}
	defer multipath.Close()
	unix, err := net.Listen("unix", t.TempDir()+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	closed, err := nettest.ListenMultipath()
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	tests := []struct {
		name string
		ln   net.Listener
		want bool
	}{
		{"multipath", multipath, true},
		{"in another type", struct{ *net.TCPListener }{multipath.(*net.TCPListener)}, true},
		{"hidden", struct{ net.Listener }{multipath}, false},
		{"closed", closed, false},
		{"Listen", listenLoopback(t, Options{}), false},
		{"Listen with options", listenLoopback(t, Options{ReusePort: true, DeferAccept: true, FastOpen: true, Backlog: 9}), false},
		{"unix", unix, false},
		{"nil", nil, false},
		{"nil pointer", (*net.TCPListener)(nil), false},
	}
	for _, test := range tests {
		if got := IsMultipath(test.ln); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	// A connection that has fallen back to TCP says nothing about its listener.
	if got := exchange(t, multipath); got != "hello" || !IsMultipath(multipath) {
		t.Errorf("read %q; multipath: %v", got, IsMultipath(multipath))
	}
}
