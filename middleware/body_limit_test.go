package middleware

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// A handler of net/http that answers while it reads the body is not held up.
func TestBodyLimitDuplex(t *testing.T) {
	handler := fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun, read := make(chan bool), make(chan string)
		go func() {
			first := make([]byte, 1)
			_, _ = r.Body.Read(first)
			close(begun)
			rest, err := io.ReadAll(r.Body)
			read <- fmt.Sprint(string(first)+string(rest), err)
		}()
		<-begun
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, <-read)
	})
	addr := serve(t, &sluice.Server{Handler: BodyLimit(10)(handler), StreamRequestBody: true})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal("there is no head before the end of the body:", err)
	}
	_, _ = io.WriteString(conn, "1\r\nb\r\n0\r\n\r\n")
	if body, err := io.ReadAll(response.Body); string(body) != "ab<nil>" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
}

// A body over the limit is 413, however it arrives, and the handler never has more of it than
// the limit. What follows it on the connection is not taken for a request.
func TestBodyLimit(t *testing.T) {
	sized := func(n int) string {
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
	}
	chunked := func(n int) string {
		return "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("2\r\nxx\r\n", n/2) + "0\r\n\r\n"
	}
	const next = "GET /next HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	for _, isStreamed := range []bool{false, true} {
		for name, c := range map[string]struct {
			request string
			want    string // the statuses of both responses
		}{
			"none":            {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
			"sized, full":     {sized(10), "200 200"},
			"sized, over":     {sized(11), "413 200"},
			"chunked, full":   {chunked(10), "200 200"},
			"chunked, over":   {chunked(12), "413 200"},
			"chunked, long":   {chunked(1 << 20), "413 200"},
			"sized, announce": {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n", "413"},
		} {
			if isStreamed && strings.HasPrefix(name, "chunked, ") && name != "chunked, full" {
				c.want = "413" // the rest of the body is not looked at
			}
			after := next
			if name == "sized, announce" {
				after = "" // the client waits for 100-continue
			}
			if !isStreamed && after == "" {
				continue // the server asks for bodies within its own limit
			}
			t.Run(fmt.Sprint(name, isStreamed), func(t *testing.T) {
				handler := func(ctx *sluice.RequestCtx) {
					body := ctx.RequestBodyStream()
					if !isStreamed {
						body = bytes.NewReader(ctx.Request.Body())
					}
					if body != nil {
						if n, _ := io.Copy(io.Discard, body); n > 10 {
							t.Errorf("the handler has %d bytes", n)
						}
					}
					ctx.SetBodyString("fine") // it does not care about the error
				}
				addr := serve(t, &sluice.Server{Handler: BodyLimit(10)(handler), StreamRequestBody: isStreamed})
				got := ask(t, addr, c.request+after)
				var statuses []string
				for _, part := range strings.Split(got, "HTTP/1.1 ")[1:] {
					statuses = append(statuses, part[:3])
				}
				if all := strings.Join(statuses, " "); all != c.want {
					t.Errorf("%s, want %s: %q", all, c.want, got)
				}
			})
		}
	}
}
