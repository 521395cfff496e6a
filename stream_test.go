package sluice

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// A StreamWriter owns things that it has to clean up: it runs exactly once,
// whatever becomes of the message.
func TestAStreamWriterRunsOnce(t *testing.T) {
	for name, use := range map[string]func(r *Response){
		"written":    func(r *Response) { _ = r.String() },
		"skipped":    func(r *Response) { r.SkipBody = true; _ = r.String() },
		"forbidden":  func(r *Response) { r.SetStatusCode(304); _ = r.String() },
		"buffered":   func(r *Response) { r.Body() },
		"dropped":    func(r *Response) { r.Reset() },
		"replaced":   func(r *Response) { r.SetBodyString("x") },
		"read":       func(r *Response) { io.ReadAll(r.BodyStream()); r.Reset() },
		"read a bit": func(r *Response) { r.BodyStream().Read(make([]byte, 1)); r.Reset() },
		"in place":   func(r *Response) { r.streamWriter(bufio.NewWriter(io.Discard)); r.CloseBodyStream() },
		"and read then": func(r *Response) {
			r.streamWriter(bufio.NewWriter(io.Discard))
			if n, err := r.stream.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Error(n, err)
			}
			r.Reset()
		},
		"taken, unread": func(r *Response) { r.BodyStream(); r.Reset() },
	} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			r := new(Response)
			r.SetBodyStreamWriter(func(w *bufio.Writer) {
				runs++
				w.WriteString("data")
			})
			use(r)
			synctest.Wait()
			if runs != 1 {
				t.Errorf("%s: ran %d times", name, runs)
			}
		})
	}
}

func TestSetBodyStreamWriterIsWritten(t *testing.T) {
	var r Response
	r.SetBodyStreamWriter(func(w *bufio.Writer) {
		w.WriteString("some ")
		w.WriteString("data")
	})
	if got := r.String(); !strings.HasSuffix(got, "\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nsome data\r\n0\r\n\r\n") {
		t.Errorf("%q", got)
	}
	if r.streamWriter != nil {
		t.Error("streamWriter is left")
	}
	var q Request
	q.SetBodyString("old")
	r.SetBodyString("old")
	q.Header.SetContentLength(3)
	r.Header.SetContentLength(3)
	q.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString("data") })
	r.SetBodyStreamWriter(func(w *bufio.Writer) {})
	if q.Header.ContentLength() != -1 || r.Header.ContentLength() != -1 || len(q.bodyBytes())+len(r.bodyBytes()) > 0 {
		t.Errorf("lengths %d and %d, %q and %q are left", q.Header.ContentLength(), r.Header.ContentLength(), q.bodyBytes(), r.bodyBytes())
	}
	if r := q.BodyStream(); r == nil || q.streamWriter != nil {
		t.Error("a stream that was handed out may still be written in place")
	}
	if got := string(q.Body()); got != "data" {
		t.Errorf("%q", got)
	}
}
