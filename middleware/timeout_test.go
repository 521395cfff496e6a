package middleware

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
)

// A handler that hangs costs its client a time-out, and the log has the answer and the id.
func TestTimeout(t *testing.T) {
	ended := make(chan bool)
	var out bytes.Buffer // written to before the response is sent
	handler := Use(func(ctx *sluice.RequestCtx) {
		defer close(ended)
		<-ctx.Done()
		ctx.SetBodyString("too late")
	}, RequestID, AccessLog(accesslog.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}), SecureHeaders(nil), ETag, BodyLimit(10), Timeout(10*time.Millisecond))
	addr := serve(t, &sluice.Server{Handler: handler})
	got := ask(t, addr, strings.Replace(get, "\r\n\r\n", "\r\nX-Request-Id: id7\r\n\r\n", 1))
	<-ended
	if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "X-Request-Id: id7\r\n") || !strings.Contains(got, "nosniff") || strings.Contains(got, "too late") {
		t.Errorf("%q", got)
	}
	if line := out.String(); !strings.Contains(line, "status=503") || !strings.Contains(line, "request_id=id7") {
		t.Error(line)
	}
}
