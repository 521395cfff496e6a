package sluice_test

import (
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/nettest"
	"github.com/sluicehttp/sluice/reuseport"
	"github.com/sluicehttp/sluice/tcplisten"
)

// listenMultipath listens for Multipath TCP until the test ends. It skips the test
// where the system has none.
func listenMultipath(t *testing.T) (net.Listener, func() (net.Conn, error)) {
	t.Helper()
	ln, err := nettest.ListenMultipath()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
}

// TestMultipathIsLogged: each Serve of such a listener logs one line, by every
// engine, with TLS too.
func TestMultipathIsLogged(t *testing.T) {
	for _, n := range overTCPByEach() {
		n.listen = listenMultipath
		for _, n := range []network{n, overTLS(t, n)} {
			r := serve(t, n, &sluice.Server{Handler: answering("x")})
			if a := r.dial().get("/"); a.body != "x" {
				t.Errorf("%s: answered %q", n.name, a.body)
			}
			r.stop()
			log := r.log.String()
			if strings.Count(log, "multipath") != 2 || strings.Count(log, "\n") != 1 || !strings.Contains(log, r.ln.Addr().String()) {
				t.Errorf("%s: logged %q", n.name, log)
			}
		}
	}
}

func TestEngineInfoOfMultipath(t *testing.T) {
	multipath, _ := listenMultipath(t)
	var plain []net.Listener
	for _, listen := range []func(network, addr string) (net.Listener, error){
		new(tcplisten.Config).NewListener, reuseport.Listen,
	} {
		ln, err := listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		plain = append(plain, ln)
	}
	for _, engine := range []sluice.Engine{sluice.EngineAuto, sluice.EnginePerConn, sluice.EngineEpoll} {
		s := &sluice.Server{Engine: engine}
		for _, ln := range append(plain, nil) {
			if info := s.EngineInfo(ln); info.MultipathTCP || strings.Contains(info.String(), "multipath") {
				t.Errorf("%v, plain: %v", engine, info)
			}
		}
		if info := s.EngineInfo(multipath); !info.MultipathTCP || !strings.HasSuffix(info.String(), "; multipath TCP)") {
			t.Errorf("%v: %v", engine, info)
		}
	}
}
