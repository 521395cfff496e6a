package server_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestCrashOnPanic: the process ends with the panic's value and the handler's
// stack. The test is its own child.
func TestCrashOnPanic(t *testing.T) {
	if os.Getenv("SLUICE_TEST_CRASH") != "" {
		crashOnRequest(t)
		return
	}
	for _, function := range []string{"panickingHandler", "panickingCallback"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCrashOnPanic$")
		cmd.Env = append(os.Environ(), "SLUICE_TEST_CRASH="+function)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("%s: the process lives on:\n%s", function, out)
		}
		for _, want := range []string{"panic: out of order", function} {
			if !strings.Contains(string(out), want) {
				t.Errorf("no %q in:\n%s", want, out)
			}
		}
	}
}

func panickingHandler(*sluice.RequestCtx) { panic("out of order") }

func panickingCallback(*sluice.RequestHeader) sluice.RequestConfig { panic("out of order") }

func crashOnRequest(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: panickingHandler, CrashOnPanic: true}
	if os.Getenv("SLUICE_TEST_CRASH") == "panickingCallback" {
		s.HeaderReceived = panickingCallback
	}
	go s.Serve(ln)
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"))
	c.Read(make([]byte, 1)) // until the process ends
}
