package http3

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/streams"
)

// TestClientUploadUnwanted: a body is not read once the response has ended the request, even if
// its goroutine was sending before, so that Close was not called.
func TestClientUploadUnwanted(t *testing.T) {
	socket := listenUDP(t)
	serveRaw(t, socket, func(*quic.Stream) {})
	stream, err := dialBare(t, socket.LocalAddr().String()).OpenStreamSync(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	defer w.Close()
	s := &clientStream{quic: stream, state: clientEnded, upload: uploadSending, params: streams.Params{Source: r, Length: -1}}
	s.uploads.Add(1)
	joined := make(chan struct{})
	go func() {
		s.endUpload()
		close(joined)
	}()
	<-stream.Context().Done() // it was ended
	go s.sendAside()
	select {
	case <-joined:
	case <-time.After(10 * time.Second):
		t.Error("the body is read")
	}
}

// doSoon returns the error of a request that must end by the client's own time-outs.
func doSoon(t *testing.T, c *sluice.HostClient, req *sluice.Request) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- c.Do(req, &sluice.Response{}) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the request does not end")
	}
	return nil
}

// TestClientReadTimeoutUnsent: ReadTimeout bounds the response also if the server does not want
// the rest of the request.
func TestClientReadTimeoutUnsent(t *testing.T) {
	for name, f := range map[string]func(s *quic.Stream){
		"stopped":  func(s *quic.Stream) { s.CancelRead(0) },
		"withheld": func(s *quic.Stream) { _, _ = s.Write(headers(":status: 417", "content-length: 5")) },
	} {
		socket := listenUDP(t)
		serveRaw(t, socket, f)
		c := overHTTP3(t, socket.LocalAddr().String())
		c.MaxIdemponentCallAttempts, c.ReadTimeout, c.ExpectContinueTimeout = 1, 50*time.Millisecond, time.Hour
		var req sluice.Request
		req.SetRequestURI("https://" + c.Addr + "/")
		req.Header.SetMethod("POST")
		req.SetBody(make([]byte, 8<<20)) // beyond the window
		if name == "withheld" {
			req.Header.Set("Expect", "100-continue")
		}
		if err := doSoon(t, c, &req); !errors.Is(err, sluice.ErrTimeout) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestClientNoCredit: WriteTimeout bounds the wait for a stream, also on a connection that was
// used.
func TestClientNoCredit(t *testing.T) {
	socket := listenUDP(t)
	transport := &quic.Transport{Conn: socket}
	ln, err := transport.Listen(serverTLS(t, protocolHTTP3), &quic.Config{MaxIncomingStreams: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ln.Close()
		_ = transport.Close()
	})
	c := overHTTP3(t, socket.LocalAddr().String())
	c.MaxIdemponentCallAttempts, c.WriteTimeout = 1, 500*time.Millisecond
	var req sluice.Request
	req.SetRequestURI("https://" + c.Addr + "/")
	for range 2 {
		if err := doSoon(t, c, &req); !errors.Is(err, sluice.ErrTimeout) {
			t.Error(err)
		}
	}
	if n := c.ConnsCount(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
