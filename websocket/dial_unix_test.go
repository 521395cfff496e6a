package websocket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestDialUnix: a URL with the scheme ws+unix names a socket, and what to ask for there.
func TestDialUnix(t *testing.T) {
	// Not t.TempDir, which may be too long for the address of a socket.
	folder, err := os.MkdirTemp("", "ws")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	socket := filepath.ToSlash(filepath.Join(folder, "a:b"))
	escaped := strings.Replace(socket, "a:b", "a%3Ab", 1)
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	e := &Endpoint{OnOpen: func(c *Conn) error { return c.TryWrite(Text, []byte(c.State().(string))) }, OnMessage: echoMessage}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if to := ctx.QueryArgs().Peek("to"); to != nil {
			ctx.Response.Header.SetBytesV("Location", to)
			ctx.SetStatusCode(sluice.StatusFound)
			return
		}
		_ = e.Upgrade(ctx, fmt.Sprintf("%s %s %s", ctx.Host(), ctx.RequestURI(), ctx.Request.Header.Peek("Authorization")))
	}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	var header sluice.RequestHeader
	header.Set("Authorization", "key")
	o := &DialOptions{Header: &header, MaxRedirects: 1, Client: &sluice.Client{HTTP2: sluice.HTTP2Only}}
	for url, want := range map[string]string{
		"ws+unix:" + escaped:                                           "localhost / key",
		"WS+Unix://" + escaped + ":/chat?room=1:2":                     "localhost /chat?room=1:2 key",
		"ws+unix:" + escaped + ":/?to=/there":                          "localhost /there key",
		"ws+unix:" + escaped + ":/?to=http://localhost/there":          "localhost /there key",
		"ws+unix:" + escaped + ":/?to=ws%2Bunix:" + escaped:            "status 302",
		"ws+unix:" + escaped + ":/?to=ws%2Bunix://" + escaped + ":/x":  "status 302",
		"ws+unix:" + escaped + ":/?to=ws%2Bunix://localhost" + escaped: "status 302",
		"ws+unix:" + escaped + "-not:/":                                "no such file",
	} {
		c, err := Dial(t.Context(), url, o)
		switch {
		case !strings.HasPrefix(want, "localhost"):
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", url, err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", url, err)
			continue
		}
		if m, err := c.Read(t.Context()); err != nil || string(m.Data) != want {
			t.Errorf("%s: %q, %v", url, m.Data, err)
		}
		_ = c.Close(CodeNormal, "")
	}

	dialAway(t, "ws+unix:"+escaped+":/?to=", o)
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	noneDialed(t)
}

// dialAway follows a redirect from a Unix socket to TCP: that server does not get the
// credentials.
func dialAway(t *testing.T, redirect string, o *DialOptions) {
	t.Helper()
	left := make(chan string, 1)
	other := start(t, sluice.EngineAuto, func(ctx *sluice.RequestCtx) {
		left <- string(ctx.Request.Header.Peek("Authorization"))
	})
	var refused *HandshakeError
	if _, err := Dial(t.Context(), redirect+"ws://"+other.addr+"/", o); !errors.As(err, &refused) || refused.Status == 302 {
		t.Errorf("a redirect to TCP: %v", err)
	} else if key := <-left; key != "" {
		t.Errorf("another server gets %q", key)
	}
}

// TestDialUnixMalformed: what names no socket is an error, and no address of TCP.
func TestDialUnixMalformed(t *testing.T) {
	for _, url := range []string{
		"ws+unix:", "ws+unix:///", "ws+unix://", "ws+unix::/", "ws+unix://host/s:/", "ws+unix:/s?q:/", "ws+unix:/s#f", "ws+unix:/s:x",
		"ws+unix:/s:?q", "ws+unix:/s:/#f", "ws+unix:/%zz:/", "ws+unix", "wss+unix:/s:/",
	} {
		if _, err := Dial(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "websocket: ") && url != "ws+unix:///" {
			t.Errorf("%q: %v", url, err)
		}
	}
}
