package fasthttpadaptor_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// streamed runs h outside a server until it calls Flush, and returns the body.
func streamed(ctx *sluice.RequestCtx, h http.HandlerFunc) sluice.ReadCloserWithError {
	ctx.Init(&sluice.Request{}, nil, nil)
	fasthttpadaptor.NewFastHTTPHandler(h)(ctx)
	return ctx.Response.BodyStream().(sluice.ReadCloserWithError)
}

// The handler learns why its stream was closed. The context has ended by then, and a
// later close changes nothing.
func TestCloseOfAStream(t *testing.T) {
	errGone := errors.New("gone")
	for name, c := range map[string]struct {
		reason error
		want   string
	}{
		"with an error": {errGone, errGone.Error()},
		"early":         {nil, "the body of the response is not read any more"},
	} {
		t.Run(name, func(t *testing.T) {
			var ctx sluice.RequestCtx
			failed, proceed := make(chan error, 1), make(chan bool)
			s := streamed(&ctx, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "first")
				flush(w)
				<-proceed
				_, err := io.WriteString(w, "collected")
				if got := r.Context().Err(); got != context.Canceled {
					t.Errorf("the context's error is %v", got)
				}
				failed <- errors.Join(err, http.NewResponseController(w).Flush())
			})
			got := make([]byte, 3)
			if n, err := s.Read(got); err != nil || string(got[:n]) != "fir" {
				t.Errorf("first %q, %v", got[:n], err)
			}
			for range 2 {
				if err := s.CloseWithError(c.reason); err != nil {
					t.Error(err)
				}
			}
			close(proceed)
			if err := <-failed; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the handler got %v", err)
			}
		})
	}
}

// The close of a body that was read as a whole waits for the handler, which it does not
// break off.
func TestCloseOfACompleteStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx sluice.RequestCtx
		proceed := make(chan bool)
		var order []string
		s := streamed(&ctx, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "fi")
			flush(w)
			_, err := io.WriteString(w, "rst")
			<-proceed
			if _, longErr := io.WriteString(w, "more"); errors.Join(err, http.NewResponseController(w).Flush(), r.Context().Err()) != nil || longErr != http.ErrContentLength {
				t.Errorf("%v, %v", err, longErr)
			}
			order = append(order, "handler")
		})
		got := make([]byte, 2)
		if _, err := io.ReadFull(s, got); err != nil || string(got) != "fi" {
			t.Errorf("%q, %v", got, err)
		}
		go func() {
			time.Sleep(time.Second)
			close(proceed)
		}()
		rest := make([]byte, 3)
		if _, err := io.ReadFull(iotest.OneByteReader(s), rest); err != nil || string(rest) != "rst" {
			t.Errorf("%q, %v", rest, err)
		}
		if err := s.CloseWithError(nil); err != nil {
			t.Error(err)
		}
		order = append(order, "close")
		if !slices.Equal(order, []string{"handler", "close"}) {
			t.Errorf("ended in the order %q", order)
		}
	})
}

// A handler that panics after Flush breaks off the body, even if all of it was read.
func TestPanicInACompleteStream(t *testing.T) {
	for value, want := range map[any]string{
		"oh": "panicked after Flush", http.ErrAbortHandler: sluice.ErrAbortHandler.Error(),
	} {
		var ctx sluice.RequestCtx
		proceed := make(chan bool)
		s := streamed(&ctx, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "first")
			flush(w)
			<-proceed
			panic(value)
		})
		got := make([]byte, 5)
		if _, err := io.ReadFull(s, got); err != nil {
			t.Error(err)
		}
		close(proceed)
		if err := s.CloseWithError(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("panic with %v: close returns %v", value, err)
		}
		if n, err := s.Read(got); n != 0 || err == nil {
			t.Errorf("panic with %v: then read %d, %v", value, n, err)
		}
	}
}

// Until the response is being written, its handler cannot change a read deadline or read
// the request.
func TestReadDeadlineAfterFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx sluice.RequestCtx
		var got []error
		s := streamed(&ctx, func(w http.ResponseWriter, r *http.Request) {
			flush(w)
			rc := http.NewResponseController(w)
			if err := rc.SetWriteDeadline(time.Unix(1, 0)); err != nil {
				t.Error(err) // the reader sets it
			}
			got = append(got, rc.SetReadDeadline(time.Unix(1, 0)))
		})
		synctest.Wait()
		if got != nil {
			t.Errorf("set before the response is written: %v", got)
		}
		if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("read %d, %v", n, err)
		}
		if len(got) != 1 || got[0] == nil {
			t.Errorf("got %v, want the error of a RequestCtx without a connection", got)
		}
	})
}

// A response is a stream only if it was flushed or is too short: handlers around can
// change any other body in place.
func TestCollectedAnswersAreNoStreams(t *testing.T) {
	for name, c := range map[string]struct {
		method, length, body string
		status               int
		flushes, isStream    bool
	}{
		"no length":           {"GET", "", "12345", 200, false, false},
		"complete":            {"GET", "5", "12345", 200, false, false},
		"empty":               {"GET", "0", "", 200, false, false},
		"longer than said":    {"GET", "0", "1", 200, false, false},
		"short":               {"GET", "6", "12345", 200, false, true},
		"HEAD":                {"HEAD", "5", "", 200, false, false},
		"HEAD of a short one": {"HEAD", "6", "12345", 200, false, false},
		"no content":          {"GET", "5", "", 204, false, false},
		"flushed":             {"GET", "5", "12345", 200, true, true},
		"flushed no content":  {"GET", "", "", 204, true, false},
		"not modified":        {"GET", "5", "", 304, true, false},
	} {
		var ctx sluice.RequestCtx
		var request sluice.Request
		request.Header.SetMethod(c.method)
		ctx.Init(&request, nil, nil)
		fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.length != "" {
				w.Header().Set("Content-Length", c.length)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
			if c.flushes {
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Errorf("%s: Flush: %v", name, err)
				}
			}
		})(&ctx)
		if got := ctx.Response.IsBodyStream(); got != c.isStream {
			t.Errorf("%s: a stream: %v", name, got)
		}
	}
}
