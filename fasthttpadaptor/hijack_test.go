package fasthttpadaptor_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// echoLines echoes lines until the input ends.
func echoLines(c net.Conn, rw *bufio.ReadWriter) {
	defer c.Close()
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		_, _ = rw.WriteString("<" + line)
		_ = rw.Flush()
	}
}

func hijacker(t *testing.T, proceed func(net.Conn, *bufio.ReadWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := w.Write([]byte("x")); err != http.ErrHijacked {
			t.Errorf("write: %v", err)
		}
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
		_ = rw.Flush()
		proceed(c, rw)
	})
}

// Lines are echoed while the handler runs, and after it has returned.
func TestHijack(t *testing.T) {
	leave := make(chan bool, 1) // a handler may return
	for name, proceed := range map[string]func(net.Conn, *bufio.ReadWriter){
		"in the handler": echoLines,
		"after it":       func(c net.Conn, rw *bufio.ReadWriter) { go echoLines(c, rw) },
		"across its end": func(c net.Conn, rw *bufio.ReadWriter) { go echoLines(c, rw); <-leave },
		"with a deadline": func(c net.Conn, rw *bufio.ReadWriter) {
			_ = c.SetDeadline(time.Now().Add(patience))
			go echoLines(c, rw)
		},
		"close at the end": func(c net.Conn, rw *bufio.ReadWriter) { defer c.Close(); echoLines(c, rw) },
	} {
		t.Run(name, func(t *testing.T) {
			onEachEngine(t, hijacker(t, proceed), func(t *testing.T, addr string) {
				c := dial(t, addr)
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nearly\n")
				in := bufio.NewReader(c)
				for _, want := range []string{"HTTP/1.1 101 Switching Protocols\r\n", "\r\n", "<early\n", "<one\n", "<two\n", "<three\n"} {
					if got, err := in.ReadString('\n'); got != want {
						t.Fatalf("got %q, %v, want %q", got, err, want)
					}
					switch want {
					case "<early\n":
						_, _ = io.WriteString(c, "one\n")
					case "<one\n":
						if name == "across its end" {
							leave <- true // the handler returns at about this time
						}
						_, _ = io.WriteString(c, "two\n")
					case "<two\n":
						_, _ = io.WriteString(c, "three\n")
					}
				}
				_ = c.(*net.TCPConn).CloseWrite()
				if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
					t.Errorf("at the end: %q, %v", rest, err)
				}
			})
		})
	}
}

func TestHijackAndPanic(t *testing.T) {
	h := hijacker(t, func(net.Conn, *bufio.ReadWriter) { panic("oh") })
	onEachEngine(t, h, func(t *testing.T, addr string) {
		c := dial(t, addr)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		got, _ := io.ReadAll(c) // may be reset
		if strings.Contains(string(got), "500") {
			t.Errorf("got %q", got)
		}
	})
}

// The responses to earlier requests are sent first.
func TestHijackOfAPipelinedRequest(t *testing.T) {
	hijack := hijacker(t, func(c net.Conn, _ *bufio.ReadWriter) { _ = c.Close() })
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijack" {
			hijack.ServeHTTP(w, r)
		}
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		got := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /hijack HTTP/1.1\r\nHost: a\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "HTTP/1.1 101 Switching Protocols\r\n\r\n") {
			t.Errorf("got %q", got)
		}
	})
}

// TestHijackAndForget: an unreachable connection is closed, as with net/http. A Read in
// progress keeps it.
func TestHijackAndForget(t *testing.T) {
	h := hijacker(t, func(c net.Conn, _ *bufio.ReadWriter) {
		go func() {
			var p [1]byte
			_, _ = c.Read(p[:])
			_, _ = c.Write(p[:])
		}()
	})
	onEachServer(t, h, func(t *testing.T, addr string) {
		c := dial(t, addr)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		in := bufio.NewReader(c)
		if _, err := http.ReadResponse(in, nil); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			runtime.GC()
		}
		_, _ = io.WriteString(c, "x")
		if b, err := in.ReadByte(); b != 'x' || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := in.ReadByte()
			ended <- err
		}()
		for {
			select {
			case err := <-ended:
				if err != io.EOF {
					t.Error(err)
				}
				return
			default:
				runtime.GC()
			}
		}
	})
}
