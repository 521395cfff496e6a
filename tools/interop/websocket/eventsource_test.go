package websocket_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/tcplisten"
)

// eventPage listens with an EventSource. It tells of each event, and at the end of all.
const eventPage = `<!doctype html><script>
const got = []
let sent = Promise.resolve() // reports go one after the other
const report = (path, text) => sent = sent.catch(() => {}).then(() => fetch(path, {method: "POST", body: text}))
const source = new EventSource("/events")
source.addEventListener("tick", e => {
	got.push(e.data)
	report("/got", e.data)
	if (e.data === "end\nof it") { source.close(); report("/report", got.join(" ")) }
})
</script>`

// TestEventSource: Chromium gets events. Its server ends, events are published meanwhile,
// and the next server sends it those that it has missed, each once.
func TestEventSource(t *testing.T) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	for _, protocol := range []string{"http/1.1", "TLS", "TLS h2"} {
		t.Run(protocol, func(t *testing.T) { (&eventServer{T: t, protocol: protocol}).test(program) })
	}
}

// An eventServer is a Hub that one Server after another serves on one address.
type eventServer struct {
	*testing.T
	protocol    string
	hub         *sse.Hub
	certificate tls.Certificate
	got, report chan string
}

func (s *eventServer) handle(ctx *sluice.RequestCtx) {
	if (ctx.StreamID() != 0) != (s.protocol == "TLS h2") {
		s.Errorf("stream %d", ctx.StreamID())
	}
	switch string(ctx.Path()) {
	case "/":
		ctx.SetContentType("text/html")
		ctx.WriteString(eventPage)
	case "/events":
		if err := s.hub.Serve(ctx, "all"); err != nil {
			s.Error(err)
		}
	case "/got":
		s.got <- string(ctx.PostBody())
	case "/report":
		s.report <- string(ctx.PostBody())
	default:
		ctx.NotFound()
	}
}

// start serves on a port until end is called; 0 is any.
func (s *eventServer) start(port int) (used int, end func()) {
	server := &sluice.Server{Handler: s.handle, TLSConfig: &tls.Config{Certificates: []tls.Certificate{s.certificate}}}
	server.HTTP2.Disable = s.protocol != "TLS h2"
	ln, err := new(tcplisten.Config).NewListener("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		s.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		if s.protocol == "http/1.1" {
			served <- server.Serve(ln)
		} else {
			served <- server.ServeTLS(ln, "", "")
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port, func() {
		_ = ln.Close() // Serve may not have begun
		if err := errors.Join(server.Shutdown(), <-served); err != nil {
			s.Error(err)
		}
	}
}

func (s *eventServer) publish(text string) {
	if err := s.hub.Publish("all", sse.Event{Name: "tick", Data: []byte(text)}); err != nil {
		s.Error(err)
	}
}

// want waits for what the page tells.
func (s *eventServer) want(from chan string, want string) {
	s.Helper()
	select {
	case got := <-from:
		if got != want {
			s.Errorf("the page tells of %q, want %q", got, want)
		}
	case <-time.After(patience):
		s.Fatalf("the page does not tell of %q", want)
	}
}

func (s *eventServer) test(program string) {
	s.got, s.report = make(chan string, 100), make(chan string, 1)
	var err error
	if s.hub, err = sse.New(sse.Options{Retry: 100 * time.Millisecond}); err != nil {
		s.Fatal(err)
	}
	certificate, spki := selfSigned(s.T)
	s.certificate = certificate
	port, end := s.start(0)
	scheme := "https"
	if s.protocol == "http/1.1" {
		scheme = "http"
	}
	_, stop := browse(s.T, program, spki, fmt.Sprintf("%s://localhost:%d/", scheme, port))
	defer stop()
	for limit := time.Now().Add(patience); s.hub.Len("all") == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			s.Fatal("the page does not connect")
		}
	}
	s.publish("1")
	s.want(s.got, "1")
	end()
	s.publish("2")
	s.publish("3")
	_, end = s.start(port)
	defer end()
	s.want(s.got, "2")
	s.want(s.got, "3")
	s.publish("end\nof it")
	s.want(s.report, "1 2 3 end\nof it")
}
