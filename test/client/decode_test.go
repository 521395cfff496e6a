package client_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sluicetest"
)

// encodedIn returns content in codings, in the order of a Content-Encoding.
func encodedIn(codings string, content []byte) []byte {
	for name := range strings.SplitSeq(codings, ",") {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			content = sluice.AppendGzipBytes(nil, content)
		case "deflate":
			content = sluice.AppendDeflateBytes(nil, content)
		case "br":
			content = sluice.AppendBrotliBytes(nil, content)
		case "zstd":
			content = sluice.AppendZstdBytes(nil, content)
		}
	}
	return content
}

// onEachProtocol runs test with a server of h and its client, which decodes, over HTTP/1.1 and
// HTTP/2, with bodies in memory and as streams.
func onEachProtocol(t *testing.T, h sluice.RequestHandler, test func(t *testing.T, s *sluicetest.Server, streams bool)) {
	for name, mode := range map[string]sluice.HTTP2Mode{"HTTP/1.1": sluice.HTTP2Off, "HTTP/2": sluice.HTTP2Only} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/streams=%v", name, streams), func(t *testing.T) {
				sluicetest.CheckLeaks(t)
				s := sluicetest.NewServer(t, h)
				c := s.Client()
				c.HTTP2, c.DecodeResponseBody, c.StreamResponseBody = mode, true, streams
				test(t, s, streams)
			})
		}
	}
}

// fetch sends a request and returns the body, and the first error of the call or its stream.
func fetch(c *sluice.Client, req *sluice.Request, resp *sluice.Response) ([]byte, error) {
	if err := c.Do(req, resp); err != nil {
		return nil, err
	}
	var content bytes.Buffer
	err := resp.BodyWriteTo(&content)
	return content.Bytes(), err
}

// TestDecoding: bodies of each coding, alone and one in another, in one piece and in parts with
// trailer fields.
func TestDecoding(t *testing.T) {
	content := make([]byte, 100_000)
	rand.Read(content[:50_000])
	handler := func(ctx *sluice.RequestCtx) {
		if got := string(ctx.Request.Header.Peek("Accept-Encoding")); got != "gzip, deflate, br, zstd" {
			ctx.Error("Accept-Encoding is "+got, 400)
			return
		}
		codings := string(ctx.QueryArgs().Peek("c"))
		encoded := encodedIn(codings, content)
		for name := range strings.SplitSeq(codings, ";") {
			ctx.Response.Header.Add("Content-Encoding", name)
		}
		ctx.Response.Header.Set("Etag", `"x"`)
		if !ctx.QueryArgs().Has("parts") {
			ctx.SetBody(encoded)
			return
		}
		ctx.Response.Header.AddTrailer("Sum")
		half := len(encoded) / 2
		ctx.Write(encoded[:half])
		ctx.Flush()
		ctx.Write(encoded[half:])
		ctx.Flush()
		ctx.Response.Header.Set("Sum", "7")
	}
	onEachProtocol(t, handler, func(t *testing.T, s *sluicetest.Server, streams bool) {
		for _, codings := range []string{"gzip", "x-gzip", "deflate", "br", "zstd", "GZIP", "gzip,br", "br, gzip", "deflate, zstd, gzip", "identity, gzip, identity", " , gzip,"} {
			for _, parts := range []string{"", "&parts"} {
				req, resp := sluicetest.NewRequest("GET", s.URL+"/?c="+strings.ReplaceAll(codings, " ", "%20")+parts, ""), &sluice.Response{}
				got, err := fetch(s.Client(), req, resp)
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("%q%s: %d bytes, %v", codings, parts, len(got), err)
					continue
				}
				h := &resp.Header
				if len(h.Peek("Content-Encoding")) > 0 || string(h.Peek("Etag")) != `"x"` {
					t.Errorf("%q%s: head %s", codings, parts, h)
				}
				if length := h.ContentLength(); streams && length != -1 || !streams && length != len(content) {
					t.Errorf("%q%s: Content-Length %d", codings, parts, length)
				}
				if sum := string(h.Peek("Sum")); parts != "" && sum != "7" {
					t.Errorf("%q%s: trailer field %q", codings, parts, sum)
				}
				if len(req.Header.Peek("Accept-Encoding")) > 0 {
					t.Errorf("the request keeps %s", req.Header.Peek("Accept-Encoding"))
				}
			}
		}
		if status, got, err := s.Client().Get(nil, s.URL+"/?c=br"); status != 200 || err != nil || !bytes.Equal(got, content) {
			t.Errorf("Get: %d, %d bytes, %v", status, len(got), err)
		}
	})
}

// TestNotDecoded: what stays as it was sent.
func TestNotDecoded(t *testing.T) {
	content := []byte(strings.Repeat("content ", 100))
	handler := func(ctx *sluice.RequestCtx) {
		args := ctx.QueryArgs()
		ctx.Response.Header.Set("Content-Encoding", string(args.Peek("c")))
		ctx.SetStatusCode(args.GetUintOrZero("status"))
		if !args.Has("empty") {
			ctx.SetBody(encodedIn("gzip", content))
		}
		if asked := ctx.Request.Header.Peek("Accept-Encoding"); len(asked) > 0 {
			ctx.Response.Header.SetBytesV("X-Asked", asked)
		}
	}
	encoded := encodedIn("gzip", content)
	onEachProtocol(t, handler, func(t *testing.T, s *sluicetest.Server, streams bool) {
		for _, c := range []struct {
			name, method, query, field, value string
			asks                              bool
			want                              []byte
		}{
			{"own Accept-Encoding", "GET", "c=gzip&status=200", "Accept-Encoding", "gzip", true, encoded},
			{"empty Accept-Encoding", "GET", "c=gzip&status=200", "Accept-Encoding", "", false, encoded},
			{"Range", "GET", "c=gzip&status=206", "Range", "bytes=0-9", false, encoded},
			{"206", "GET", "c=gzip&status=206", "X", "y", true, encoded},
			{"204", "GET", "c=gzip&status=204", "X", "y", true, nil},
			{"304", "GET", "c=gzip&status=304", "If-None-Match", "*", true, nil},
			{"HEAD", "HEAD", "c=gzip&status=200", "X", "y", false, nil},
			{"empty", "GET", "c=gzip&status=200&empty", "X", "y", true, nil},
			{"unknown coding", "GET", "c=aes128gcm&status=200", "X", "y", true, encoded},
			{"known and unknown", "GET", "c=gzip,aes128gcm&status=200", "X", "y", true, encoded},
			{"too many", "GET", "c=gzip,gzip,gzip,gzip&status=200", "X", "y", true, encoded},
		} {
			req, resp := sluicetest.NewRequest(c.method, s.URL+"/?"+c.query, ""), &sluice.Response{}
			req.Header.Set(c.field, c.value)
			before := req.Header.String()
			got, err := fetch(s.Client(), req, resp)
			h := &resp.Header
			if err != nil || !bytes.Equal(got, c.want) || len(h.Peek("Content-Encoding")) == 0 && resp.StatusCode() != 204 {
				t.Errorf("%s: %q, %v, head %s", c.name, got, err, h)
			}
			if asked := len(h.Peek("X-Asked")) > 0; asked != c.asks {
				t.Errorf("%s: asked for codings: %v", c.name, asked)
			}
			if after := req.Header.String(); strings.Contains(after, "Accept-Encoding") != strings.Contains(before, "Accept-Encoding") {
				t.Errorf("%s: the request was %s, and is %s", c.name, before, after)
			}
		}
		s.Client().DecodeResponseBody = false
		if got, err := fetch(&sluice.Client{}, sluicetest.NewRequest("GET", s.URL+"/?c=gzip&status=200", ""), &sluice.Response{}); s.Client().HTTP2 == sluice.HTTP2Off && (err != nil || !bytes.Equal(got, encoded)) {
			t.Errorf("off: %q, %v", got, err)
		}
		c := &sluice.Client{HTTP2: s.Client().HTTP2}
		defer c.CloseIdleConnections()
		resp := &sluice.Response{DecodeBody: true}
		if got, err := fetch(c, sluicetest.NewRequest("GET", s.URL+"/?c=gzip&status=200", ""), resp); err != nil || !bytes.Equal(got, content) || !resp.DecodeBody {
			t.Errorf("one response: %q, %v", got, err)
		}
	})
}

// TestDecodingFails: bodies that are cut, that are not what Content-Encoding says, that go on
// after their end, and that decode to more than the limit. Another request succeeds afterwards.
func TestDecodingFails(t *testing.T) {
	content := []byte(strings.Repeat("content ", 1000))
	bomb := make([]byte, 1<<20)
	handler := func(ctx *sluice.RequestCtx) {
		args := ctx.QueryArgs()
		codings := string(args.Peek("c"))
		ctx.Response.Header.Set("Content-Encoding", codings)
		encoded := encodedIn(codings, content)
		switch string(args.Peek("how")) {
		case "cut":
			encoded = encoded[:len(encoded)-3]
		case "plain":
			encoded = content
		case "more":
			encoded = append(encoded, "more"...)
		case "bomb":
			encoded = encodedIn(codings, bomb)
		}
		ctx.SetBody(encoded)
	}
	onEachProtocol(t, handler, func(t *testing.T, s *sluicetest.Server, streams bool) {
		s.Client().MaxResponseBodySize = 100_000
		for _, codings := range []string{"gzip", "deflate", "br", "zstd", "gzip,br", "br,deflate"} {
			for _, how := range []string{"cut", "plain", "more", "bomb", "well"} {
				if how == "more" && strings.HasSuffix(codings, "deflate") {
					continue // what follows its end is ignored, as BodyUncompressed does
				}
				resp := &sluice.Response{}
				got, err := fetch(s.Client(), sluicetest.NewRequest("GET", s.URL+"/?c="+codings+"&how="+how, ""), resp)
				isRight := err != nil && !errors.Is(err, sluice.ErrBodyTooLarge)
				switch how {
				case "cut":
					isRight = isRight && errors.Is(err, io.ErrUnexpectedEOF)
				case "bomb":
					isRight = errors.Is(err, sluice.ErrBodyTooLarge) && len(got) <= 100_000
				case "well":
					isRight = err == nil && bytes.Equal(got, content)
				}
				if !isRight {
					t.Errorf("%s, %s: %d bytes, %v", codings, how, len(got), err)
				}
			}
		}
	})
}

// TestDecodingAsItArrives: parts of a stream are decoded before the next ones are sent, and
// Close ends a Read that waits.
func TestDecodingAsItArrives(t *testing.T) {
	next := make(chan bool)
	handler := func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(ctx)
		for i := 0; ; i++ {
			fmt.Fprintf(z, "part %d\n", i)
			z.Flush()
			if ctx.Flush() != nil {
				return
			}
			select {
			case <-next:
			case <-ctx.Done(): // the client is gone
				return
			}
		}
	}
	onEachProtocol(t, handler, func(t *testing.T, s *sluicetest.Server, streams bool) {
		resp := &sluice.Response{StreamBody: true}
		if err := s.Client().Do(sluicetest.NewRequest("GET", s.URL, ""), resp); err != nil {
			t.Fatal(err)
		}
		var part [7]byte
		for i := range 3 {
			if i > 0 {
				next <- true
			}
			if _, err := io.ReadFull(resp.BodyStream(), part[:]); err != nil || string(part[:]) != fmt.Sprintf("part %d\n", i) {
				t.Fatalf("%q, %v", part, err)
			}
		}
		stream := resp.BodyStream()
		failed := make(chan error)
		go func() {
			_, err := stream.Read(part[:])
			failed <- err
		}()
		time.Sleep(10 * time.Millisecond) // so that Read mostly waits; it must end in any case
		stream.(io.Closer).Close()
		if err := <-failed; err == nil || err == io.EOF {
			t.Errorf("a Read that waits: %v", err)
		}
	})
}

// TestDecodingAfterRetries: each attempt asks, and the response to the last one is decoded.
func TestDecodingAfterRetries(t *testing.T) {
	var attempts atomic.Int32
	content := []byte("content")
	handler := func(ctx *sluice.RequestCtx) {
		switch n := attempts.Add(1); {
		case len(ctx.Request.Header.Peek("Accept-Encoding")) == 0:
			ctx.SetStatusCode(400)
		case n%3 == 1: // not what it says
			ctx.SetStatusCode(503)
			ctx.Response.Header.Set("Content-Encoding", "gzip")
			ctx.SetBodyString("busy")
		case n%3 == 2:
			ctx.Redirect("/", 302)
			ctx.Response.Header.Set("Content-Encoding", "br")
			ctx.SetBodyString("elsewhere")
		default:
			ctx.Response.Header.Set("Content-Encoding", "zstd")
			ctx.SetBody(encodedIn("zstd", content))
		}
	}
	onEachProtocol(t, handler, func(t *testing.T, s *sluicetest.Server, streams bool) {
		c := s.Client()
		c.RetryStatus = &sluice.RetryStatus{MinPause: time.Millisecond}
		before := attempts.Load()
		if status, got, err := c.Get(nil, s.URL); status != 200 || !bytes.Equal(got, content) || err != nil {
			t.Errorf("%d %q, %v", status, got, err)
		}
		if n := attempts.Load() - before; n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestDecodingOfBrokenConnections: the error of the connection counts, not what a decoder makes
// of it. Names of fields that are not normalised are found.
func TestDecodingOfBrokenConnections(t *testing.T) {
	encoded := encodedIn("gzip", []byte("content"))
	for _, streams := range []bool{false, true} {
		for cut := range 3 {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					conn.Read(make([]byte, 4096))
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(encoded), encoded[:len(encoded)-cut])
					conn.Close()
				}
			}()
			c := &sluice.Client{DecodeResponseBody: true, StreamResponseBody: streams, DisableHeaderNamesNormalizing: true, MaxIdemponentCallAttempts: 1}
			resp := &sluice.Response{}
			got, err := fetch(c, sluicetest.NewRequest("GET", "http://"+ln.Addr().String(), ""), resp)
			if cut == 0 && (err != nil || string(got) != "content" || strings.Contains(resp.Header.String(), "ncoding: gzip")) {
				t.Errorf("complete: %q, %v, %s", got, err, &resp.Header)
			}
			if cut > 0 && (!errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "decoded")) {
				t.Errorf("cut by %d: %q, %v", cut, got, err)
			}
			ln.Close()
			c.CloseIdleConnections()
		}
	}
}
