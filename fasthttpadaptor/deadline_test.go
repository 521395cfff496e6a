package fasthttpadaptor_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// onEachServer runs test with servers of h: net/http's, and ours with each engine and
// streamed request bodies.
func onEachServer(t *testing.T, h http.Handler, test func(t *testing.T, addr string)) {
	t.Run("net/http", func(t *testing.T) {
		reference := httptest.NewServer(h)
		defer reference.Close()
		test(t, reference.Listener.Addr().String())
	})
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(e.String(), func(t *testing.T) {
			test(t, serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), Engine: e, StreamRequestBody: true}))
		})
	}
}

// isTimeout reports whether err is a passed deadline.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Reading a body that does not arrive ends at the read deadline, and the handler can
// still respond.
func TestReadDeadline(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, 4)
		_, err := io.ReadFull(r.Body, first)
		rc := http.NewResponseController(w)
		err = errors.Join(err, rc.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, readErr := r.Body.Read(first)
		fmt.Fprint(w, err, " ", isTimeout(readErr))
	})
	onEachServer(t, h, func(t *testing.T, addr string) {
		got := exchange(t, addr, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf")
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.HasSuffix(got, "<nil> true") {
			t.Errorf("got %q", got)
		}
	})
}

// A read deadline that was removed, or belonged to the request before, has no effect.
func TestReadDeadlineIsOver(t *testing.T) {
	past := time.Unix(1, 0)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if r.URL.Path == "/back" {
			if err := errors.Join(rc.SetReadDeadline(past), rc.SetReadDeadline(time.Time{})); err != nil {
				t.Error(err)
			}
		}
		body, err := io.ReadAll(r.Body)
		if err := rc.SetReadDeadline(past); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "%s, %v", body, err)
	})
	onEachServer(t, h, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in := bufio.NewReader(c)
		for _, path := range []string{"/back", "/", "/back"} {
			_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo")
			_, _ = io.WriteString(c, "dy")
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "body, <nil>" {
				t.Errorf("%s: %q, %v", path, got, err)
			}
		}
	})
}

// Writing to a client that does not read ends at the write deadline.
func TestWriteDeadline(t *testing.T) {
	failed := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if r.URL.Path == "/flushed" {
			flush(w)
		}
		if err := rc.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			failed <- errors.Join(errors.New("cannot set the deadline"), err)
			return
		}
		block := make([]byte, 1<<20)
		for range 1000 { // far more than the kernel buffers
			_, err := w.Write(block)
			if errors.Join(err, rc.Flush()) != nil {
				failed <- nil
				return
			}
		}
		failed <- errors.New("everything was written")
	})
	onEachServer(t, h, func(t *testing.T, addr string) {
		for _, path := range []string{"/", "/flushed"} {
			c := dial(t, addr)
			_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			select {
			case err := <-failed:
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
			case <-time.After(patience):
				t.Fatalf("%s: the write does not end", path)
			}
		}
	})
}
