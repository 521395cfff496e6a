package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

const patience = 30 * time.Second

// onEachEngine runs test for both engines and both kinds of relays.
func onEachEngine(t *testing.T, test func(t *testing.T, conn *net.TCPConn, path string)) {
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, path := range []string{"/stream", "/flush"} {
			t.Run(engine.String()+path, func(t *testing.T) { test(t, start(t, engine), path) })
		}
	}
}

// start serves until the test ends, and connects.
func start(t *testing.T, engine sluice.Engine) *net.TCPConn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(log.New(io.Discard, "", 0))
	server.Engine = engine
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() {
		conn.Close()
		_ = ln.Close() // Serve may not have begun
		server.Shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn.(*net.TCPConn)
}

func send(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// answerTo reads the head of a response, which must arrive now.
func answerTo(t *testing.T, conn net.Conn) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		t.Fatalf("answer %s", resp.Status)
	}
	return resp
}

func want(t *testing.T, r io.Reader, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v, want %q", got, err, text)
	}
}

// The first half is returned before the second one is sent.
func TestHalfComesBackBeforeTheRestIsSent(t *testing.T) {
	for _, framing := range []struct{ name, field, first, second string }{
		{"length", "Content-Length: 11\r\n", "hello ", "World"},
		{"chunked", "Transfer-Encoding: chunked\r\n", "6\r\nhello \r\n", "5\r\nWorld\r\n0\r\n\r\n"},
	} {
		t.Run(framing.name, func(t *testing.T) {
			onEachEngine(t, func(t *testing.T, conn *net.TCPConn, path string) {
				send(t, conn, "POST "+path+" HTTP/1.1\r\nHost: a\r\n"+framing.field+"\r\n"+framing.first)
				resp := answerTo(t, conn)
				want(t, resp.Body, "HELLO ")
				send(t, conn, framing.second)
				want(t, resp.Body, "WORLD")
				if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
					t.Errorf("then %q, %v", rest, err)
				}
				if path == "/stream" && framing.name == "length" && resp.ContentLength != 11 {
					t.Errorf("Content-Length %d", resp.ContentLength)
				}
				// The connection can be used for another request.
				send(t, conn, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
				want(t, answerTo(t, conn).Body, "X")
			})
		})
	}
}

// If a client does not read, the server stops reading from it: the client can send
// only what the two sockets buffer.
func TestBackPressure(t *testing.T) {
	const size = 256 << 20 // far more than the kernel buffers
	onEachEngine(t, func(t *testing.T, conn *net.TCPConn, path string) {
		send(t, conn, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", path, size))
		block := []byte(strings.Repeat("x", 64<<10))
		sent := 0
		for sent < size {
			conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			n, err := conn.Write(block[:min(len(block), size-sent)])
			sent += n
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if sent == size {
			t.Fatal("all of it was taken, and nobody read the answer")
		}
		t.Logf("%d KiB were taken", sent>>10)
		// More is forwarded as soon as the client reads.
		resp := answerTo(t, conn)
		conn.SetWriteDeadline(time.Now().Add(patience))
		go conn.Write(block[:min(len(block), size-sent)])
		if n, err := io.CopyN(io.Discard, resp.Body, int64(sent+1)); err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
	})
}

// The response to half a request must not look complete.
func TestHalfARequest(t *testing.T) {
	onEachEngine(t, func(t *testing.T, conn *net.TCPConn, path string) {
		send(t, conn, "POST "+path+" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		resp := answerTo(t, conn)
		want(t, resp.Body, "HELLO")
		conn.CloseWrite()
		if rest, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("the answer is complete: %q", rest)
		}
	})
}
