package interop_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// serveNetHTTP answers as the tests of the client need it. The path says how.
func serveNetHTTP(w http.ResponseWriter, r *http.Request) {
	size, _ := strconv.Atoi(r.URL.Query().Get("size"))
	switch r.URL.Path {
	case "/echo":
		w.Header().Set("Trailer", "X-Sum")
		sum := sha256.New()
		_, err := io.Copy(w, io.TeeReader(r.Body, sum))
		w.Header().Set("X-Sum", fmt.Sprintf("%x %v %q", sum.Sum(nil), err, r.Trailer.Get("X-End")))
	case "/large":
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(bytes.Repeat([]byte("0123456789abcdef"), size/16))
	case "/unread": // the response ends, and then the request is reset with NO_ERROR
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too large")
	case "/interim":
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	case "/fields":
		for i := range size {
			w.Header().Add(fmt.Sprintf("X-Field-%d", i%7), strings.Repeat("v", i))
		}
	case "/none":
		w.WriteHeader(http.StatusNoContent)
	case "/abort":
		_, _ = io.WriteString(w, "a part")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "/wait":
		<-r.Context().Done()
	}
}

// A clientCase is a request that both clients send.
type clientCase struct {
	method, path string
	size         int  // of the body
	isStream     bool // the body has no length
	hasTrailer   bool
	expects      bool
}

func (c clientCase) String() string {
	return fmt.Sprintf("%s %s %d %v %v %v", c.method, c.path, c.size, c.isStream, c.hasTrailer, c.expects)
}

var clientCases = []clientCase{
	{method: "GET", path: "/echo"},
	{method: "POST", path: "/echo", size: 1},
	{method: "POST", path: "/echo", size: 1 << 10},
	{method: "POST", path: "/echo", size: 5 << 20},
	{method: "POST", path: "/echo", size: 1, isStream: true},
	{method: "POST", path: "/echo", size: 3 << 20, isStream: true},
	{method: "POST", path: "/echo", size: 100, isStream: true, hasTrailer: true},
	{method: "POST", path: "/echo", size: 200_000, isStream: true, hasTrailer: true},
	{method: "POST", path: "/echo", size: 10_000, expects: true},
	{method: "GET", path: "/large?size=16"},
	{method: "GET", path: "/large?size=20000000"},
	{method: "HEAD", path: "/large?size=20000000"},
	{method: "POST", path: "/unread", size: 100},
	{method: "POST", path: "/unread", size: 8 << 20},
	{method: "GET", path: "/interim"},
	{method: "GET", path: "/fields?size=150"},
	{method: "HEAD", path: "/fields?size=20"},
	{method: "GET", path: "/none"},
	{method: "POST", path: "/none", size: 3 << 20},
	{method: "GET", path: "/abort"},
	{method: "GET", path: "/missing"},
}

// A clientResult is what a client has seen of a response.
type clientResult struct {
	status  int
	fields  http.Header
	body    [32]byte
	size    int
	trailer http.Header
	failed  bool
}

func (r clientResult) String() string {
	r.fields.Del("Date")
	return fmt.Sprintf("%d %v %x (%d) %v failed: %v", r.status, r.fields, r.body[:4], r.size, r.trailer, r.failed)
}

func bodyOf(size int) []byte { return bytes.Repeat([]byte("x"), size) }

// askNetHTTP sends the request with net/http.
func askNetHTTP(t *testing.T, client *http.Client, url string, c clientCase) (result clientResult) {
	var body io.Reader
	if c.size > 0 {
		body = bytes.NewReader(bodyOf(c.size))
	}
	if c.isStream {
		body = io.MultiReader(body)
	}
	r, err := http.NewRequest(c.method, url+c.path, body)
	if err != nil {
		t.Fatal(err)
	}
	if c.hasTrailer {
		r.Trailer = http.Header{"X-End": {"1"}}
	}
	if c.expects {
		r.Header.Set("Expect", "100-continue")
	}
	resp, err := client.Do(r)
	if err != nil {
		return clientResult{failed: true}
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		return clientResult{status: resp.StatusCode, failed: true}
	}
	resp.Header.Del("Trailer")
	return clientResult{
		status: resp.StatusCode, fields: resp.Header, body: sha256.Sum256(all), size: len(all),
		trailer: resp.Trailer,
	}
}

// ourRequest is the http2client.Request of a clientCase.
type ourRequest struct {
	clientCase
	scheme    string
	stream    http2client.Stream
	table     field.Table
	isLent    bool // the response is streamed
	interims  []int
	response  []byte
	result    clientResult
	authority string
}

func (r *ourRequest) AppendHead(dst []byte, e message.FieldEncoder) []byte {
	dst = e.AppendRequest(dst, fieldlist.RequestFields{
		Method: []byte(r.method), Scheme: []byte(r.scheme), Authority: []byte(r.authority), Path: []byte(r.path),
	})
	if r.size > 0 && !r.isStream {
		dst = e.AppendLength(dst, int64(r.size))
	}
	if r.hasTrailer {
		dst = e.AppendField(dst, field.Trailer, []byte("trailer"), []byte("x-end"))
	}
	if r.expects {
		dst = e.AppendField(dst, field.Expect, []byte("expect"), []byte("100-continue"))
	}
	return e.AppendField(dst, field.AcceptEncoding, []byte("accept-encoding"), []byte("gzip"))
}

func (r *ourRequest) AppendTrailer(dst []byte, e message.FieldEncoder) []byte {
	return e.AppendField(dst, field.Other, []byte("x-end"), []byte("1"))
}

func (r *ourRequest) Fields() *field.Table { return &r.table }

func (r *ourRequest) HeadReceived(head *fieldlist.Head, _ bool) (isStreamed bool, err error) {
	if head.StatusCode < 200 {
		r.interims = append(r.interims, head.StatusCode)
		return false, nil
	}
	r.result.status = head.StatusCode
	r.result.fields = headerOf(&r.table)
	r.result.fields.Del("Trailer")
	return r.isLent, nil
}

func headerOf(t *field.Table) http.Header {
	h := http.Header{}
	for i := range t.Len() {
		h.Add(string(t.Name(i)), string(t.Value(i)))
	}
	return h
}

func (r *ourRequest) BodyReceived(p []byte) error {
	r.response = append(r.response, p...)
	return nil
}

func (r *ourRequest) InterimReceived(*fieldlist.Head, *field.Table) {}

func (r *ourRequest) TrailerReceived(t *field.Table) { r.result.trailer = headerOf(t) }

// ask sends the request with http2client.
func ask(conn *http2client.Conn, scheme, authority string, c clientCase, isLent bool) (*ourRequest, error) {
	r := &ourRequest{clientCase: c, scheme: scheme, authority: authority, isLent: isLent}
	s := &r.stream
	s.Request, s.IsHead, s.HasTrailer = r, c.method == "HEAD", c.hasTrailer
	if s.Content = bodyOf(c.size); c.isStream {
		s.Source, s.Length = io.MultiReader(bytes.NewReader(s.Content)), -1
	}
	err := conn.Do(s)
	if err == nil && isLent {
		r.response, err = io.ReadAll(s)
		_ = s.Close()
	}
	if err != nil {
		r.result = clientResult{status: r.result.status, failed: true}
		return r, err
	}
	r.result.size, r.result.body = len(r.response), sha256.Sum256(r.response)
	return r, nil
}

// onNetHTTP runs a test on a server of net/http, in plain text and with TLS.
func onNetHTTP(t *testing.T, test func(t *testing.T, s *httptest.Server, dial func() *http2client.Conn)) {
	for _, isSecure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", isSecure), func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(serveNetHTTP))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.Config.Protocols, s.EnableHTTP2 = new(http.Protocols), true
			s.Config.Protocols.SetHTTP2(true)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			if isSecure {
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			test(t, s, func() *http2client.Conn {
				var conn net.Conn
				conn, err := net.Dial("tcp", s.Listener.Addr().String())
				if isSecure && err == nil {
					secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
					conn, err = secure, secure.Handshake()
				}
				if err != nil {
					t.Fatal(err)
				}
				return http2client.NewConn(conn, &http2client.Config{IsTLS: isSecure}, nil)
			})
		})
	}
}

func schemeOf(s *httptest.Server) (scheme, authority string) {
	scheme, authority, _ = strings.Cut(s.URL, "://")
	return scheme, authority
}

// The client of HTTP/2 sees the same as that of net/http.
func TestH2ClientLikeNetHTTP(t *testing.T) {
	onNetHTTP(t, func(t *testing.T, s *httptest.Server, dial func() *http2client.Conn) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: s.Config.Protocols, DisableCompression: true, ExpectContinueTimeout: time.Second}
		client := &http.Client{Transport: transport}
		defer client.CloseIdleConnections()
		scheme, authority := schemeOf(s)
		conn := dial()
		defer conn.Close()
		for _, c := range clientCases {
			want := askNetHTTP(t, client, s.URL, c)
			for _, isLent := range []bool{false, true} {
				r, err := ask(conn, scheme, authority, c, isLent)
				if r.result.String() != want.String() {
					t.Errorf("%v, streamed %v:\n net/http has %v\n we have      %v, %v", c, isLent, want, r.result, err)
				}
				if c.expects && fmt.Sprint(r.interims) != "[100]" || c.path == "/interim" && fmt.Sprint(r.interims) != "[103]" {
					t.Errorf("%v: interim responses %v", c, r.interims)
				}
			}
		}
	})
}

// Many requests share a connection. Some give up, and do not harm the others.
func TestH2ClientConcurrently(t *testing.T) {
	onNetHTTP(t, func(t *testing.T, s *httptest.Server, dial func() *http2client.Conn) {
		scheme, authority := schemeOf(s)
		conn := dial()
		defer conn.Close()
		var all sync.WaitGroup
		for i := range 40 {
			all.Add(1)
			go func() {
				defer all.Done()
				for j := range 20 {
					if (i+j)%5 == 0 {
						giveUp(t, conn, scheme, authority)
						continue
					}
					c := clientCase{method: "POST", path: "/echo", size: 1 << ((i + j) % 18), isStream: j%3 == 0}
					r, err := ask(conn, scheme, authority, c, j%2 == 0)
					want := fmt.Sprintf("%x <nil> %q", sha256.Sum256(bodyOf(c.size)), "")
					if got := r.result.trailer.Get("X-Sum"); err != nil || !bytes.Equal(r.response, bodyOf(c.size)) || got != want {
						t.Errorf("%v: %v, %d bytes, %q", c, err, len(r.response), got)
					}
				}
			}()
		}
		all.Wait()
		if n := conn.Streams(); n != 0 {
			t.Errorf("%d streams remain", n)
		}
	})
}

// giveUp sends a request that is not answered, or reads only a part of the response.
func giveUp(t *testing.T, conn *http2client.Conn, scheme, authority string) {
	r := &ourRequest{clientCase: clientCase{method: "GET", path: "/wait"}, scheme: scheme, authority: authority}
	r.stream.Request, r.stream.ReadTimeout = r, 5*time.Millisecond
	if err := conn.Do(&r.stream); err == nil {
		t.Error("the server has answered")
	}
	r = &ourRequest{clientCase: clientCase{method: "GET", path: "/large?size=200000"}, scheme: scheme, authority: authority, isLent: true}
	r.stream.Request = r
	if err := conn.Do(&r.stream); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(&r.stream, make([]byte, 100)); err != nil {
		t.Error(err)
	}
	_ = r.stream.Close()
}
