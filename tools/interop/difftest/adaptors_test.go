package difftest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	ouradaptor "github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/valyala/fasthttp"
	theiradaptor "github.com/valyala/fasthttp/fasthttpadaptor"
	theirutil "github.com/valyala/fasthttp/fasthttputil"
)

// adaptorRows are handlers of net/http, and what a client gets: the status, the
// fields that begin with X-, the trailer section as it is on the wire and the
// body's size; "cut" is a body without its end. The handler around the adaptor
// recovers, and sets X-Late. Those with the number of a row of
// docs/compatibility.md differ from fasthttp.
var adaptorRows = []struct {
	row, name string
	handler   http.HandlerFunc
	want      string
}{
	{"S102", "Host and Close", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Own", fmt.Sprint(r.Host, r.Header["Host"], r.Close))
	}, "200 [X-Late=1 X-Own=a[] true] [] 0"},
	{"", "small", writes(10, false), "200 [X-Late=1 X-Own=1] [] 10"},
	{"", "large", writes(300_000, false), "200 [X-Late=1 X-Own=1] [] 300000"},
	{"", "large, flushed", writes(300_000, true), "200 [X-Late=1 X-Own=1] [] 300000"},
	{"", "fields after Flush", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Own", "2")
		_, _ = io.WriteString(w, "y")
	}, "200 [X-Late=1] [] 2"},
	{"S70", "fields after Write", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
		w.Header().Set("X-Own", "2")
	}, "200 [X-Late=1] [] 1"},
	{"", "trailers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "x")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-More", "2")
	}, "200 [X-Late=1] [X-More=2 X-Sum=1] 1"},
	{"", "trailers and a length", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-Set")
		w.Header().Set("X-Set", "then")
		w.Header().Set("Content-Length", "1")
		_, _ = io.WriteString(w, "x")
		w.Header().Set("X-Set", "later")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-More", "2")
	}, "200 [X-Late=1 X-Set=then] [] 1"},
	{"", "a panic after Flush", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		panic("oh")
	}, "200 [X-Late=1] [] 1 cut"},
	{"", "ErrAbortHandler", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "nothing"},
	{"", "ErrAbortHandler after Flush", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, "200 [X-Late=1] [] 1 cut"},
	{"", "Hijack after Write", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first,")
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("second")
		_ = rw.Flush()
	}, `"first,second"`},
}

func writes(n int, flushes bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Own", "1")
		for range n / 10 {
			_, _ = io.WriteString(w, "0123456789")
		}
		if flushes {
			w.(http.Flusher).Flush()
		}
	}
}

// TestAdaptors compares what clients get from handlers of net/http.
func TestAdaptors(t *testing.T) {
	for _, r := range adaptorRows {
		theirs, ours := theirutil.NewInmemoryListener(), fasthttputil.NewInmemoryListener()
		their, our := theiradaptor.NewFastHTTPHandler(r.handler), ouradaptor.NewFastHTTPHandler(r.handler)
		serveTheirs(t, theirs, func(ctx *fasthttp.RequestCtx) {
			defer recoverIn(func(text string) { ctx.Error(text, 500) })
			their(ctx)
			ctx.Response.Header.Set("X-Late", "1")
		})
		serveOurs(t, ours, func(ctx *sluice.RequestCtx) {
			defer recoverIn(func(text string) { ctx.Error(text, 500) })
			our(ctx)
			ctx.Response.Header.Set("X-Late", "1")
		})
		got, want := exchanged(t, ours.Dial), exchanged(t, theirs.Dial)
		if got != r.want {
			t.Errorf("%s %s: got %s, want %s", r.row, r.name, got, r.want)
		}
		if differs := want != r.want; differs != (r.row != "") {
			t.Errorf("%s %s: fasthttp: %s, want %s", r.row, r.name, want, r.want)
		}
	}
}

func recoverIn(answer func(text string)) {
	if v := recover(); v != nil {
		answer(fmt.Sprint("recovered ", v))
	}
}

// exchanged describes the answer to a request.
func exchanged(t *testing.T, dial func() (net.Conn, error)) string {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // only reached when a test fails
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	all, _ := io.ReadAll(conn)
	text := string(all)
	head, body, isResponse := strings.Cut(text, "\r\n\r\n")
	if text == "" {
		return "nothing"
	} else if !isResponse {
		return fmt.Sprintf("%q", text)
	}
	end, section := "", ""
	size := len(body)
	if strings.Contains(head, "Transfer-Encoding: chunked") {
		body, size = "\r\n"+body, 0
		for {
			var n int
			if _, err := fmt.Sscanf(body, "\r\n%x\r\n", &n); err != nil {
				end = " cut"
				break
			}
			_, body, _ = strings.Cut(body[2:], "\r\n")
			if n == 0 {
				section = body
				break
			}
			size += n
			body = body[min(n, len(body)):]
		}
	}
	return fmt.Sprint(head[9:12], " ", ownFields(head), " ", ownFields(section), " ", size, end)
}

// ownFields lists the fields that begin with X-, by name.
func ownFields(text string) []string {
	fields := []string{}
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, found := strings.Cut(line, ": "); found && strings.HasPrefix(name, "X-") {
			fields = append(fields, name+"="+value)
		}
	}
	slices.Sort(fields)
	return fields
}

// TestConvertedProtocols compares what ConvertRequest makes of protocols.
func TestConvertedProtocols(t *testing.T) {
	describe := func(r *http.Request, err error) string {
		return result(fmt.Sprintf("%s %d.%d", r.Proto, r.ProtoMajor, r.ProtoMinor), err)
	}
	compare(t, lines("HTTP/1.1|HTTP/1.0|HTTP/2|HTTP/2.0|HTTP/3.7|other|HTTP/10.2"), nil,
		func(protocol string) string {
			var ctx fasthttp.RequestCtx
			ctx.Init(&fasthttp.Request{}, nil, nil)
			ctx.Request.SetRequestURI("/")
			ctx.Request.Header.SetProtocol(protocol)
			var r http.Request
			return describe(&r, theiradaptor.ConvertRequest(&ctx, &r, true))
		},
		func(protocol string) string {
			var ctx sluice.RequestCtx
			ctx.Init(&sluice.Request{}, nil, nil)
			ctx.Request.SetRequestURI("/")
			ctx.Request.Header.SetProtocol(protocol)
			var r http.Request
			return describe(&r, ouradaptor.ConvertRequest(&ctx, &r, true))
		})
}
