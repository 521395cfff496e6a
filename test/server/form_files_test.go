package server_test

import (
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestFormFilesOfLostRequests: whatever becomes of a request, the temporary files
// of its form are removed when nobody uses them any more.
func TestFormFilesOfLostRequests(t *testing.T) {
	const size = 4<<20 + 1<<18 // 4 MiB are kept in memory
	body := string(formOf(size))
	form := func(ctx *sluice.RequestCtx) *multipart.FileHeader {
		file, err := ctx.FormFile("f")
		if err != nil {
			t.Error(err)
		}
		return file
	}
	for name, handler := range map[string]sluice.RequestHandler{
		"TimeoutError":        func(ctx *sluice.RequestCtx) { form(ctx); ctx.TimeoutError("late") },
		"TimeoutError, Done":  func(ctx *sluice.RequestCtx) { ctx.Done(); form(ctx); ctx.TimeoutError("late") },
		"TimeoutError, panic": func(ctx *sluice.RequestCtx) { form(ctx); ctx.TimeoutError("late"); panic("mad") },
		"in time":             sluice.TimeoutHandler(func(ctx *sluice.RequestCtx) { form(ctx); ctx.TimeoutError("late") }, harness.Patience, "slow"),
		"panic":               func(ctx *sluice.RequestCtx) { form(ctx); panic("mad") },
		"abort":               func(ctx *sluice.RequestCtx) { form(ctx); panic(sluice.ErrAbortHandler) },
		"hijack":              func(ctx *sluice.RequestCtx) { form(ctx); ctx.Hijack(func(net.Conn) {}) },
		"Flush, TimeoutError": func(ctx *sluice.RequestCtx) { form(ctx); _ = ctx.Flush(); ctx.TimeoutError("late") },
		"closed":              func(ctx *sluice.RequestCtx) { form(ctx); _ = ctx.Conn().Close() },
	} {
		for _, n := range harness.OverTCPByEach() {
			isStreaming := n.Engine == sluice.EnginePerConn
			if testing.Short() && isStreaming && name != "TimeoutError" {
				continue
			}
			t.Run(name+"/"+n.Name, func(t *testing.T) {
				folder := t.TempDir()
				t.Setenv("TMPDIR", folder)
				if name == "TimeoutError" { // the server asks for the collection; no other does
					defer debug.SetGCPercent(debug.SetGCPercent(-1))
				}
				parsed := make(chan int64, 1)
				r := harness.Serve(t, n, &sluice.Server{MaxRequestBodySize: 8 << 20, StreamRequestBody: isStreaming, Handler: func(ctx *sluice.RequestCtx) {
					defer func() { parsed <- bytesIn(t, folder) }()
					handler(ctx)
				}})
				p := r.Dial()
				p.Send(harness.Post("/", body, "Content-Type: multipart/form-data; boundary=B"))
				if n := harness.Receive(t, parsed); n < size {
					t.Errorf("%d bytes in files", n)
				}
				harness.Eventually(t, "no file is left", func() bool {
					if name != "TimeoutError" {
						runtime.GC()
					}
					return bytesIn(t, folder) == 0
				})
			})
		}
	}
}

// TestFormFilesAreKeptWhileUsed: who goes on with a request that timed out can
// open its files until the end.
func TestFormFilesAreKeptWhileUsed(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	work := func(leave <-chan bool, found chan<- error) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			header, err := ctx.FormFile("f")
			<-leave
			var file multipart.File
			if err == nil {
				file, err = header.Open()
			}
			if err == nil {
				n, copyErr := io.Copy(io.Discard, file)
				if err = copyErr; n != 6<<20 {
					err = fmt.Errorf("%d bytes", n)
				}
				file.Close()
			}
			found <- err
		}
	}
	for name, within := range map[string]func(h sluice.RequestHandler) sluice.RequestHandler{
		"TimeoutHandler": func(h sluice.RequestHandler) sluice.RequestHandler {
			return sluice.TimeoutHandler(h, harness.Briefly, "slow")
		},
		"TimeoutError": func(h sluice.RequestHandler) sluice.RequestHandler {
			return func(ctx *sluice.RequestCtx) {
				go h(ctx)
				time.Sleep(harness.Briefly)
				ctx.TimeoutError("slow")
			}
		},
	} {
		leave, found := make(chan bool), make(chan error, 1)
		r := harness.Serve(t, harness.OverTCP(), &sluice.Server{MaxRequestBodySize: 8 << 20, Handler: within(work(leave, found))})
		p := r.Dial()
		p.Send(harness.Post("/", string(formOf(6<<20)), "Content-Type: multipart/form-data; boundary=B"))
		if a := p.Answer("POST"); a.StatusCode != 408 {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
		for range 2 { // more than the server asks for: a cleanup would run now
			runtime.GC()
		}
		leave <- true
		if err := harness.Receive(t, found); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r.Stop()
		if name == "TimeoutHandler" {
			harness.Eventually(t, "no file is left", func() bool { return bytesIn(t, folder) == 0 })
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Error(err)
	}
}

// TestBodyFormValueOfAnotherField: a form without the field has no value of it.
func TestBodyFormValueOfAnotherField(t *testing.T) {
	var ctx sluice.RequestCtx
	ctx.Request.Header.SetContentType("multipart/form-data; boundary=b")
	ctx.Request.SetBodyString("--b\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n--b--\r\n")
	if got := ctx.FormValue("other"); got != nil {
		t.Errorf("%q", got)
	}
	if got := ctx.FormValue("k"); string(got) != "v" {
		t.Errorf("%q", got)
	}
}
