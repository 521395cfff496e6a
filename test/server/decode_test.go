package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// decodeLimit is the size of bodies that these tests allow, tooLong that of what
// they are decoded to.
const (
	decodeLimit = 100 << 10
	tooLong     = 6 << 20
)

// encoders are the content codings by name; "" is none.
var encoders = map[string]func(dst, src []byte) []byte{
	"":        func(dst, src []byte) []byte { return append(dst, src...) },
	"gzip":    sluice.AppendGzipBytes,
	"deflate": sluice.AppendDeflateBytes,
	"br":      sluice.AppendBrotliBytes,
	"zstd":    sluice.AppendZstdBytes,
}

// decoders are the ways to a decoded body of a request or a response, with the
// content coding for which they are; "*" is each.
func decoders(r interface {
	BodyGunzip() ([]byte, error)
	BodyGunzipWithLimit(int) ([]byte, error)
	BodyInflate() ([]byte, error)
	BodyInflateWithLimit(int) ([]byte, error)
	BodyUnbrotli() ([]byte, error)
	BodyUnbrotliWithLimit(int) ([]byte, error)
	BodyUnzstd() ([]byte, error)
	BodyUnzstdWithLimit(int) ([]byte, error)
	BodyUncompressed() ([]byte, error)
	BodyUncompressedWithLimit(int) ([]byte, error)
}) map[string]map[string]func() ([]byte, error) {
	with := func(f func(int) ([]byte, error), limit int) func() ([]byte, error) {
		return func() ([]byte, error) { return f(limit) }
	}
	return map[string]map[string]func() ([]byte, error){
		"gzip":    {"BodyGunzip": r.BodyGunzip, "BodyGunzipWithLimit": with(r.BodyGunzipWithLimit, 0)},
		"deflate": {"BodyInflate": r.BodyInflate, "BodyInflateWithLimit": with(r.BodyInflateWithLimit, 0)},
		"br":      {"BodyUnbrotli": r.BodyUnbrotli, "BodyUnbrotliWithLimit": with(r.BodyUnbrotliWithLimit, 0)},
		"zstd":    {"BodyUnzstd": r.BodyUnzstd, "BodyUnzstdWithLimit": with(r.BodyUnzstdWithLimit, 0)},
		"*": {"BodyUncompressed": r.BodyUncompressed, "BodyUncompressedWithLimit": with(r.BodyUncompressedWithLimit, -1),
			"a smaller limit": with(r.BodyUncompressedWithLimit, 10)},
	}
}

// formOf returns a multipart form with a field and a file of n bytes.
func formOf(n int) []byte {
	return []byte("--B\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\nvalue\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("\x00", n) + "\r\n--B--\r\n")
}

// bytesIn returns how much the files in a folder hold.
func bytesIn(t *testing.T, folder string) (n int64) {
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Error(err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			n += info.Size()
		}
	}
	return n
}

// decodeHandler looks at the body in the way that the path names, and answers
// with the error. Files of forms are in folder.
func decodeHandler(t *testing.T, folder string) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		form := func(f func() error) { ctx.SetBodyString(verdict(f())) }
		switch path, coding := string(ctx.Path()), ctx.Request.Header.ContentEncoding(); path {
		case "/MultipartForm":
			form(func() error { _, err := ctx.MultipartForm(); return err })
		case "/FormFile":
			form(func() error { _, err := ctx.FormFile("f"); return err })
		case "/FormValue":
			form(func() error {
				if v := ctx.FormValue("v"); v != nil {
					return fmt.Errorf("there is a value %q", v)
				}
				_, err := ctx.MultipartForm()
				return err
			})
		case "/PostArgs": // PostArgs never decodes
			form(func() error {
				if ctx.PostArgs().Has(sluice.ErrBodyTooLarge.Error()) {
					return errors.New("the error is an argument")
				}
				_, err := ctx.Request.BodyUncompressed()
				return err
			})
		case "/larger":
			body, err := ctx.Request.BodyUncompressedWithLimit(2 * tooLong)
			fmt.Fprint(ctx, len(body), err)
		case "/steps": // a body that is encoded twice
			form(func() error {
				body, err := ctx.Request.BodyGunzip()
				if err != nil {
					return fmt.Errorf("first step: %v", err)
				}
				ctx.Request.SetBodyRaw(body)
				_, err = ctx.Request.BodyGunzip()
				return err
			})
		default:
			all := decoders(&ctx.Request)
			decode := all[string(coding)][path[1:]]
			if decode == nil {
				decode = all["*"][strings.ReplaceAll(path[1:], "_", " ")]
			}
			form(func() error { _, err := decode(); return err })
		}
		if n := bytesIn(t, folder); n > decodeLimit {
			t.Errorf("%s: %d bytes in files", ctx.Path(), n)
		}
	}
}

// TestDecodedBodiesAreBounded walks all ways by which a handler gets a body that
// decodes to more than MaxRequestBodySize.
func TestDecodedBodiesAreBounded(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	zeros := append([]byte("a="), make([]byte, tooLong)...)
	bombs, formBombs := map[string][]byte{}, map[string][]byte{}
	for encoding, encode := range encoders {
		if testing.Short() && encoding == "br" {
			continue
		}
		bombs[encoding], formBombs[encoding] = encode(nil, zeros), encode(nil, formOf(tooLong))
	}
	for _, isStreaming := range []bool{false, true} {
		t.Run(fmt.Sprint("stream=", isStreaming), func(t *testing.T) {
			// The engine does not matter: handlers decode what has come.
			r := harness.Serve(t, harness.OverTCP(), &sluice.Server{MaxRequestBodySize: decodeLimit, StreamRequestBody: isStreaming, Handler: decodeHandler(t, folder)})
			ask := func(path, encoding, contentType string, body []byte) string {
				p := r.Dial()
				defer p.Close()
				fields := []string{"Content-Type: " + contentType}
				if encoding != "" {
					fields = append(fields, "Content-Encoding: "+encoding)
				}
				go func() { _, _ = io.WriteString(p.Conn, harness.Post(path, string(body), fields...)) }()
				return p.Answer("POST").Body
			}
			for encoding, bomb := range bombs {
				if encoding == "" && !isStreaming {
					continue // is refused before there is a handler
				}
				for _, path := range []string{"/MultipartForm", "/FormFile", "/FormValue"} {
					if encoding == "" {
						break // TestLargeUploadsAreCollectedFromStreams
					}
					if got := ask(path, encoding, "multipart/form-data; boundary=B", formBombs[encoding]); got != "too large" {
						t.Errorf("stream %v, %s, %q: %s", isStreaming, path, encoding, got)
					}
				}
				paths := []string{"PostArgs"}
				for _, ways := range []map[string]func() ([]byte, error){decoders(new(sluice.Request))[encoding], decoders(new(sluice.Request))["*"]} {
					for name := range ways {
						paths = append(paths, name)
					}
				}
				for _, path := range paths {
					got := ask("/"+strings.ReplaceAll(path, " ", "_"), encoding, "application/x-www-form-urlencoded", bomb)
					if got != "too large" {
						t.Errorf("stream %v, %s, %q: %s", isStreaming, path, encoding, got)
					}
				}
				if got := ask("/larger", encoding, "text/plain", bomb); encoding != "" && got != fmt.Sprint(len(zeros), nil) {
					t.Errorf("stream %v, %q: with a limit of its own: %s", isStreaming, encoding, got)
				}
			}
			twice := sluice.AppendGzipBytes(nil, sluice.AppendGzipBytes(nil, zeros))
			if got := ask("/steps", "gzip, gzip", "text/plain", twice); got != "too large" {
				t.Errorf("stream %v: in two steps: %s", isStreaming, got)
			}
		})
	}
}

// TestLargeUploadsAreCollectedFromStreams: MaxRequestBodySize does not bound a
// form that is read from a stream and not encoded, as in fasthttp.
func TestLargeUploadsAreCollectedFromStreams(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{MaxRequestBodySize: decodeLimit, StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/limited" {
				_, err := ctx.MultipartFormWithLimit(tooLong)
				ctx.SetBodyString(verdict(err))
				return
			}
			f, err := ctx.FormFile("f")
			if err != nil {
				ctx.SetBodyString(err.Error())
				return
			}
			fmt.Fprint(ctx, f.Size)
		}})
		for path, want := range map[string]string{"/": fmt.Sprint(tooLong), "/limited": "too large"} {
			p := r.Dial()
			go func() {
				_, _ = io.WriteString(p.Conn, harness.Post(path, string(formOf(tooLong)), "Content-Type: multipart/form-data; boundary=B"))
			}()
			if got := p.Answer("POST").Body; got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
			p.Close()
		}
	})
}

// verdict tells an error of too much from others.
func verdict(err error) string {
	if errors.Is(err, sluice.ErrBodyTooLarge) {
		return "too large"
	}
	return fmt.Sprint(err)
}

// TestFormsAreBoundedInParts: a form within the limit of its size is refused
// when it has too many parts, or too much besides files.
func TestFormsAreBoundedInParts(t *testing.T) {
	part := "--B\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\n%s\r\n"
	for name, body := range map[string]string{
		"parts":  strings.Repeat(fmt.Sprintf(part, "x"), 1001),
		"fields": fmt.Sprintf(part, strings.Repeat("x", 15<<20)),
	} {
		var r sluice.Request
		r.Header.SetMultipartFormBoundary("B")
		r.SetBodyString(body + "--B--\r\n")
		if form, err := r.MultipartForm(); verdict(err) != "too large" {
			t.Errorf("%s: %v, %v", name, form != nil, err)
		}
	}
}

// TestFailedFormStreamIsNotReadOn: every look into a form whose stream was too
// long has the same error, and reads nothing more.
func TestFailedFormStreamIsNotReadOn(t *testing.T) {
	body := bytes.NewReader(formOf(tooLong))
	var r sluice.Request
	r.Header.SetMultipartFormBoundary("B")
	r.SetBodyStream(body, -1)
	_, first := r.MultipartFormWithLimit(decodeLimit)
	unread := body.Len()
	_, second := r.MultipartFormWithLimit(decodeLimit)
	if verdict(first) != "too large" || second != first || body.Len() != unread {
		t.Errorf("%v, then %v; %d bytes more were read", first, second, unread-body.Len())
	}
	r.ResetBody()
	r.SetBody(formOf(10))
	if _, err := r.MultipartForm(); err != nil {
		t.Errorf("the next body: %v", err)
	}
}

// TestDecodedResponsesAreBounded: MaxResponseBodySize, and the limit of
// ReadLimitBody, bound what a response is decoded to.
func TestDecodedResponsesAreBounded(t *testing.T) {
	bombs := map[string][]byte{}
	for coding, encode := range encoders {
		bombs[coding] = encode(nil, make([]byte, tooLong))
	}
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		coding := string(ctx.Path()[1:])
		ctx.Response.Header.SetContentEncoding(coding)
		ctx.SetBody(bombs[coding])
	}})
	addr := r.Ln.Addr().String()
	pipeline := &sluice.PipelineClient{Addr: addr, MaxResponseBodySize: decodeLimit}
	read := func(isStream bool) func(req *sluice.Request, resp *sluice.Response) error {
		return func(req *sluice.Request, resp *sluice.Response) error {
			coding := string(req.URI().Path()[1:])
			body := bombs[coding]
			raw := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body)
			resp.Reset()
			resp.StreamBody = isStream
			return resp.ReadLimitBody(bufio.NewReader(strings.NewReader(raw)), decodeLimit)
		}
	}
	for how, do := range map[string]func(req *sluice.Request, resp *sluice.Response) error{
		"Client":                 (&sluice.Client{MaxResponseBodySize: decodeLimit}).Do,
		"HostClient":             (&sluice.HostClient{Addr: addr, MaxResponseBodySize: decodeLimit}).Do,
		"stream":                 (&sluice.Client{MaxResponseBodySize: decodeLimit, StreamResponseBody: true}).Do,
		"PipelineClient":         pipeline.Do,
		"ReadLimitBody":          read(false),
		"ReadLimitBody, streams": read(true),
	} {
		for coding := range encoders {
			if coding == "" {
				continue
			}
			var resp sluice.Response
			for _, ways := range []map[string]func() ([]byte, error){decoders(&resp)[coding], decoders(&resp)["*"]} {
				for name, decode := range ways {
					var req sluice.Request
					req.SetRequestURI("http://" + addr + "/" + coding)
					if err := do(&req, &resp); err != nil {
						t.Fatalf("%s, %s: %v", how, coding, err)
					}
					if body, err := decode(); verdict(err) != "too large" {
						t.Errorf("%s, %s, %s: %d bytes, %v", how, coding, name, len(body), err)
					}
				}
			}
			resp.Reset()
		}
	}
}

// TestRequestsOutsideAServerAreBounded: the limit that a request was read with
// goes on to its copies, and ends with the body.
func TestRequestsOutsideAServerAreBounded(t *testing.T) {
	body := sluice.AppendGzipBytes(nil, formOf(tooLong))
	raw := harness.Post("/", string(body), "Content-Type: multipart/form-data; boundary=B", "Content-Encoding: gzip")
	var r, copied sluice.Request
	if err := r.ReadLimitBody(bufio.NewReader(strings.NewReader(raw)), decodeLimit); err != nil {
		t.Fatal(err)
	}
	r.CopyTo(&copied)
	var ctx sluice.RequestCtx
	ctx.Init(&r, nil, nil)
	for name, req := range map[string]*sluice.Request{"read": &r, "copied": &copied, "RequestCtx.Init": &ctx.Request} {
		if _, err := req.MultipartForm(); verdict(err) != "too large" {
			t.Errorf("%s: MultipartForm: %v", name, err)
		}
		if _, err := req.BodyGunzip(); verdict(err) != "too large" {
			t.Errorf("%s: BodyGunzip: %v", name, err)
		}
		if got, err := req.BodyGunzipWithLimit(2 * tooLong); err != nil || len(got) < tooLong {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		req.ResetBody()
		req.SetBody(body)
		if got, err := req.BodyGunzip(); err != nil || len(got) < tooLong {
			t.Errorf("%s: a body of its own: %d bytes, %v", name, len(got), err)
		}
	}
}
