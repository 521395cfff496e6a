package sluice

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestABodyEndsAFailure: after the error of a stream, any other body is whole.
func TestABodyEndsAFailure(t *testing.T) {
	var q Request
	q.Header.SetContentType("application/x-www-form-urlencoded")
	q.SetBodyStream(io.MultiReader(strings.NewReader("a=1"), iotest.ErrReader(errWire)), -1)
	if q.PostArgs().Len() != 0 || len(q.bodyBytes()) != 0 {
		t.Errorf("arguments %s, body %q", q.PostArgs(), q.bodyBytes())
	}
	for name, set := range map[string]func(r *Response){
		"SwapBody":      func(r *Response) { r.SwapBody([]byte("new")) },
		"SetBody":       func(r *Response) { r.SetBody([]byte("new")) },
		"SetBodyString": func(r *Response) { r.SetBodyString("new") },
		"SetBodyRaw":    func(r *Response) { r.SetBodyRaw([]byte("new")) },
		"SetBodyStream": func(r *Response) { r.SetBodyStream(strings.NewReader("new"), 3) },
		"Write": func(r *Response) {
			r.ResetBody()
			if n, err := r.BodyWriter().Write([]byte("new")); n != 3 || err != nil {
				t.Error(n, err)
			}
		},
		"WriteString": func(r *Response) {
			r.ResetBody()
			if n, err := r.BodyWriter().(io.StringWriter).WriteString("new"); n != 3 || err != nil {
				t.Error(n, err)
			}
		},
	} {
		var r Response
		r.SetBodyStream(iotest.ErrReader(errWire), -1)
		if got := string(r.Body()); got != errWire.Error() {
			t.Errorf("%s: %q", name, got)
		}
		set(&r)
		if got, err := r.BodyUncompressed(); string(got) != "new" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
