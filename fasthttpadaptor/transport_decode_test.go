package fasthttpadaptor

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// Compressed responses are decoded as by http.Transport, if the caller has not asked for them.
func TestTransportDecodes(t *testing.T) {
	text := strings.Repeat("text ", 1000)
	encoded := string(sluice.AppendGzipBytes(nil, []byte(text)))
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Asked", fmt.Sprint(strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")))
		w.Header().Set("Content-Encoding", "gzip")
		switch r.URL.Path {
		case "/length":
			w.Header().Del("Trailer")
			w.Header().Set("Content-Length", fmt.Sprint(len(encoded)))
		case "/unknown":
			w.Header().Set("Content-Encoding", "aes128gcm")
		case "/cut":
			io.WriteString(w, encoded[:len(encoded)/2])
			return
		}
		if r.Method != http.MethodHead {
			io.WriteString(w, encoded)
		}
		w.Header().Set("X-Sum", "7")
	}
	seen := map[string]string{}
	onSenders(t, handler, func(t *testing.T, s sender) {
		for _, off := range []bool{false, true} {
			switch transport := s.client.Transport.(type) {
			case *http.Transport:
				transport.DisableCompression = off
			case *Transport:
				transport.DisableCompression = off
			}
			for _, c := range []struct{ method, path, field, value string }{
				{"GET", "/", "X", "y"}, {"GET", "/length", "X", "y"}, {"GET", "/unknown", "X", "y"}, {"HEAD", "/length", "X", "y"},
				{"GET", "/", "Accept-Encoding", "gzip"}, {"GET", "/", "Range", "bytes=0-"}, {"GET", "/cut", "X", "y"},
			} {
				req, err := http.NewRequest(c.method, s.url+c.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set(c.field, c.value)
				resp, err := s.client.Do(req)
				if err != nil {
					t.Errorf("%v: %v", c, err)
					continue
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				resp.Header.Del("Date")
				got := fmt.Sprintf("%d %v length %d uncompressed %v body %q trailers %v, failed %v",
					resp.StatusCode, resp.Header, resp.ContentLength, resp.Uncompressed, body, resp.Trailer, err != nil)
				if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%v: %v", c, err)
				}
				key := fmt.Sprint(off, c, resp.ProtoMajor)
				if before, ok := seen[key]; ok && before != got {
					t.Errorf("%s: got\n%.500s\nwant\n%.500s", key, got, before)
				}
				seen[key] = got
			}
		}
	})
}

// Interim responses come to the trace, over HTTP/1.1 and HTTP/2, and its error ends the request.
func TestTransportInterim(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Link", "</b.css>")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "final")
	}
	errRefused := errors.New("refused")
	onSenders(t, handler, func(t *testing.T, s sender) {
		for _, fails := range []error{nil, errRefused} {
			var got []string
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				got = append(got, fmt.Sprint(code, h["Link"]))
				return fails
			}})
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.client.Do(req)
			isOwn := !strings.HasPrefix(t.Name(), "TestTransportInterim/net")
			if (err == nil) != (fails == nil) || isOwn && !errors.Is(err, fails) || len(got) == 0 || got[0] != "103 [</a.css>]" || fails == nil && (len(got) != 2 || got[1] != "103 [</b.css>]") {
				t.Errorf("%q, %v", got, err)
			}
			if err == nil {
				if body, _ := io.ReadAll(resp.Body); string(body) != "final" {
					t.Errorf("%q", body)
				}
				resp.Body.Close()
			}
		}
	})
}

// A body that the client's own Transport has put into memory is not lost.
func TestTransportOfTransports(t *testing.T) {
	tr := &Transport{Client: &sluice.Client{Transport: roundTripper(func(resp *sluice.Response) { resp.SetBodyString("kept") })}}
	resp, err := (&http.Client{Transport: tr}).Get("http://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); string(body) != "kept" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
}

type roundTripper func(*sluice.Response)

func (f roundTripper) RoundTrip(_ *sluice.HostClient, _ *sluice.Request, resp *sluice.Response) (retry bool, err error) {
	f(resp)
	return false, nil
}
