package difftest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// A script of TestStreams is a kind of message, a kind of stream and what is done
// with them. Compared are the result and which methods of the stream are called;
// several Reads are one.

// streamText is what the streams of these tests have.
var streamText = strings.Repeat("x", 300)

// streamLog is a stream and notes what is called.
type streamLog struct {
	*strings.Reader
	calls []string
}

func (l *streamLog) note(call string) {
	if n := len(l.calls); n == 0 || call != "Read" || l.calls[n-1] != call {
		l.calls = append(l.calls, call)
	}
}

type logReader struct{ l *streamLog }

func (s logReader) Read(p []byte) (int, error) { s.l.note("Read"); return s.l.Reader.Read(p) }

type logCloser struct{ logReader }

func (s logCloser) Close() error { s.l.note("Close"); return errors.New("of Close") }

type logTold struct{ logReader }

func (s logTold) CloseWithError(err error) error {
	s.l.note(fmt.Sprintf("CloseWithError(%v)", err != nil))
	return errors.New("of CloseWithError")
}

type logBoth struct{ logReader }

func (s logBoth) Close() error                   { return logCloser(s).Close() }
func (s logBoth) CloseWithError(err error) error { return logTold(s).CloseWithError(err) }

type logWriter struct{ logReader }

func (s logWriter) WriteTo(w io.Writer) (int64, error) {
	s.l.note("WriteTo")
	return s.l.Reader.WriteTo(w)
}

type logAsked struct {
	logWriter
	answer bool
}

func (s logAsked) SupportsBodyWriteTo() bool { s.l.note("asked"); return s.answer }

var streamKinds = map[string]func(l *streamLog) io.Reader{
	"reader":        func(l *streamLog) io.Reader { return logReader{l} },
	"closer":        func(l *streamLog) io.Reader { return logCloser{logReader{l}} },
	"told":          func(l *streamLog) io.Reader { return logTold{logReader{l}} },
	"both":          func(l *streamLog) io.Reader { return logBoth{logReader{l}} },
	"writer":        func(l *streamLog) io.Reader { return logWriter{logReader{l}} },
	"writer, asked": func(l *streamLog) io.Reader { return logAsked{logWriter{logReader{l}}, true} },
	"writer, no":    func(l *streamLog) io.Reader { return logAsked{logWriter{logReader{l}}, false} },
}

// streamMessage is message with Write, which both libraries' types have.
type streamMessage interface {
	message
	Write(*bufio.Writer) error
}

// failingWriter takes nothing.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("of the writer") }

var streamUses = map[string]func(m streamMessage, s io.Reader) any{
	"Write": func(m streamMessage, s io.Reader) any { m.SetBodyStream(s, len(streamText)); return wireOf(m) },
	"Write, unknown length": func(m streamMessage, s io.Reader) any {
		m.SetBodyStream(s, -1)
		return wireOf(m)
	},
	"Write fails": func(m streamMessage, s io.Reader) any {
		m.SetBodyStream(s, len(streamText))
		return errorKind(m.Write(bufio.NewWriterSize(failingWriter{}, 16)))
	},
	"Body":            func(m streamMessage, s io.Reader) any { m.SetBodyStream(s, -1); return string(m.Body()) },
	"SwapBody":        func(m streamMessage, s io.Reader) any { m.SetBodyStream(s, -1); return string(m.SwapBody(nil)) },
	"CloseBodyStream": func(m streamMessage, s io.Reader) any { m.SetBodyStream(s, -1); return errorKind(m.CloseBodyStream()) },
	"Reset":           func(m streamMessage, s io.Reader) any { m.SetBodyStream(s, -1); m.Reset(); return nil },
	"SetBody":         func(m streamMessage, s io.Reader) any { m.SetBodyStream(s, -1); m.SetBodyString("y"); return nil },
	"WriteGzip": func(m streamMessage, s io.Reader) any {
		r, ok := m.(response)
		if !ok {
			return nil
		}
		m.SetBodyStream(s, -1)
		return errorKind(r.WriteGzip(bufio.NewWriter(io.Discard)))
	},
}

// wireOf is what m is on the wire behind its head, or an error.
func wireOf(m streamMessage) string {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	err := m.Write(w)
	_ = w.Flush()
	_, content, _ := strings.Cut(out.String(), "\r\n\r\n")
	return content + errorKind(err)
}

func errorKind(err error) string {
	if err == nil {
		return ""
	}
	return ", error " + err.Error()
}

func useStream(input string, request, response streamMessage) string {
	words := strings.SplitN(input, ": ", 3)
	m := response
	if words[0] == "request" {
		m = request
	}
	l := &streamLog{Reader: strings.NewReader(streamText)}
	result := streamUses[words[2]](m, streamKinds[words[1]](l))
	return fmt.Sprint(result, " ", strings.Join(l.calls, " "))
}

func TestStreams(t *testing.T) {
	var inputs []string
	known := differences{}
	for _, message := range []string{"request", "response"} {
		for kind := range streamKinds {
			for use := range streamUses {
				input := message + ": " + kind + ": " + use
				inputs = append(inputs, input)
				if message == "request" && (kind == "told" || kind == "both") && use != "WriteGzip" {
					known[input] = "D42" // CloseWithError is called
				}
			}
		}
	}
	compare(t, inputs, known,
		func(s string) string {
			q := &fasthttp.Request{}
			q.SetRequestURI("http://h/")
			q.Header.SetMethod("POST")
			return useStream(s, q, &fasthttp.Response{})
		},
		func(s string) string {
			q := &sluice.Request{}
			q.SetRequestURI("http://h/")
			q.Header.SetMethod("POST")
			return useStream(s, q, &sluice.Response{})
		})
}

// TestEmptyChunkedRequests: a chunked body that turns out to be empty.
func TestEmptyChunkedRequests(t *testing.T) {
	inputs := []string{"0\r\n\r\n", "1\r\na\r\n0\r\n\r\n", "0\r\nFoo: 1\r\n\r\n"}
	known := differences{"0\r\nFoo: 1\r\n\r\n": "H20"}
	const head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	compare(t, inputs, known,
		func(s string) string {
			var q fasthttp.Request
			err := q.Read(bufio.NewReader(strings.NewReader(head + s)))
			return fmt.Sprintf("%v %d %q %q", err, q.Header.ContentLength(), q.Header.Peek("Transfer-Encoding"), q.Header.String())
		},
		func(s string) string {
			var q sluice.Request
			err := q.Read(bufio.NewReader(strings.NewReader(head + s)))
			return fmt.Sprintf("%v %d %q %q", err, q.Header.ContentLength(), q.Header.Peek("Transfer-Encoding"), q.Header.String())
		})
}

// TestMethodIsOwn: who writes into the method of one request changes no other.
func TestMethodIsOwn(t *testing.T) {
	compare(t, []string{"x"}, nil,
		func(s string) string {
			var one, other fasthttp.RequestHeader
			method := one.Method()
			copy(method, s)
			got := string(other.Method())
			copy(method, "G")
			return got
		},
		func(s string) string {
			var one, other sluice.RequestHeader
			method := one.Method()
			copy(method, s)
			got := string(other.Method())
			copy(method, "G")
			return got
		})
}

// TestManyFields: a large buffer takes many fields.
func TestManyFields(t *testing.T) {
	fields := strings.Repeat("X: y\r\n", 1000) + "Content-Length: 0\r\n\r\n"
	compare(t, []string{"HTTP/1.1 200 OK\r\n" + fields}, nil,
		func(s string) string {
			var r fasthttp.ResponseHeader
			return errorKind(r.Read(bufio.NewReaderSize(strings.NewReader(s), 64<<10))) + fmt.Sprint(r.Len())
		},
		func(s string) string {
			var r sluice.ResponseHeader
			return errorKind(r.Read(bufio.NewReaderSize(strings.NewReader(s), 64<<10))) + fmt.Sprint(r.Len())
		})
}
