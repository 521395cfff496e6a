package server_test

import (
	"flag"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/reuseport"
	"github.com/sluicehttp/sluice/tcplisten"
	"github.com/sluicehttp/sluice/test/harness"
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

// TestMultipathIsLogged: a process tells once of such listeners, by every engine, with TLS
// too, and a test binary tells nothing.
func TestMultipathIsLogged(t *testing.T) {
	listenMultipath(t)
	isProgram := flag.Arg(0) == programArgument
	if !isProgram {
		out, err := exec.Command(os.Args[0], "-test.run=^TestMultipathIsLogged$", programArgument).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	} else {
		own := flag.CommandLine
		defer func() { flag.CommandLine = own }()
		flag.CommandLine = flag.NewFlagSet("", flag.ContinueOnError) // as in a program
	}
	var logs strings.Builder
	var addrs []string
	for _, n := range harness.OverTCPByEach() {
		n.Listen = listenMultipath
		for _, n := range []harness.Network{n, harness.OverTLS(t, n)} {
			r := harness.Serve(t, n, &sluice.Server{Handler: answering("x")})
			if a := r.Dial().Get("/"); a.Body != "x" {
				t.Errorf("%s: answered %q", n.Name, a.Body)
			}
			r.Stop()
			logs.WriteString(r.Log.String())
			addrs = append(addrs, r.Ln.Addr().String())
		}
	}
	want := 0
	if isProgram {
		want = 1
	}
	log := logs.String()
	if strings.Count(log, "for multipath TCP") != want || strings.Count(log, "\n") != want || isProgram && !strings.Contains(log, addrs[0]) {
		t.Errorf("logged %q", log)
	}
}

// programArgument has a test binary behave as a program.
const programArgument = "program"

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
		s := &sluice.Server{Engine: engine, IOUring: sluice.IOUringOff}
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

// TestListenAndServeIsNotMultipath: a client that would speak it gets plain TCP.
func TestListenAndServeIsNotMultipath(t *testing.T) {
	listenMultipath(t)
	addr := harness.FreeAddr(t)
	s := &sluice.Server{Handler: answering("x"), Logger: &harness.LogBook{}}
	served := make(chan error, 1)
	go func() { served <- s.ListenAndServe(addr) }()
	var dialer net.Dialer
	dialer.SetMultipathTCP(true)
	var conn net.Conn
	harness.Eventually(t, "it listens", func() (ok bool) {
		var err error
		conn, err = dialer.Dial("tcp", addr)
		return err == nil
	})
	defer conn.Close()
	if is, err := conn.(*net.TCPConn).MultipathTCP(); is || err != nil {
		t.Errorf("multipath: %v, %v", is, err)
	}
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
