package tcp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/http2/http2test"
	"github.com/sluicehttp/sluice/tcp"
)

const askLines = "GET /lines HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: other, Lines\r\n\r\n"

// upgradeServer starts a server of HTTP whose connections s takes over.
func upgradeServer(t *testing.T, e sluice.Engine, s *tcp.Server, configure ...func(*sluice.Server)) (server *sluice.Server, connect func() *client) {
	t.Helper()
	server = &sluice.Server{Engine: e, IdleTimeout: time.Minute, Handler: func(ctx *sluice.RequestCtx) {
		if err := s.Upgrade(ctx, "lines"); err != nil && ctx.Response.StatusCode() == sluice.StatusOK {
			t.Errorf("%v without an answer", err)
		}
	}}
	for _, change := range configure {
		change(server)
	}
	ln, dial := listenTCP(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	eventually(t, "the engine", func() bool { return server.EngineStats().Engine != "" })
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	return server, func() *client {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(patience))
		return &client{conn}
	}
}

// head reads the head of a response.
func (c *client) head(t *testing.T) string {
	t.Helper()
	var b [1]byte
	head := ""
	for !strings.HasSuffix(head, "\r\n\r\n") {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			t.Fatal(head, err)
		}
		head += string(b[:])
	}
	return head
}

func TestUpgrade(t *testing.T) {
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(e.String(), func(t *testing.T) {
			closed := make(ends, 10)
			opened := make(chan *tcp.Sender, 10)
			s := &tcp.Server{Handler: lines, OnClose: closed.onClose, OnOpen: func(c *tcp.Conn) error {
				c.SetState("greeted")
				opened <- c.Sender()
				_, err := c.WriteString("hello\n")
				return err
			}}
			server, connect := upgradeServer(t, e, s)
			c := connect()
			c.send(t, askLines+"first\nsec")
			if head := c.head(t); !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "Upgrade: lines\r\n") {
				t.Fatal(head)
			}
			c.expect(t, "hello\n5:first\n")
			c.ask(t, "ond\n", "6:second\n")
			out := <-opened
			for range 10 { // asleep in between
				if n := tcp.Broadcast([]*tcp.Sender{out}, []byte("news\n")); n != 1 {
					t.Error("the message was not accepted")
				}
				c.expect(t, "news\n")
				c.ask(t, "and\n", "3:and\n")
			}
			c.Close()
			closed.expect(t, nil)
			late := connect()
			late.send(t, askLines)
			late.head(t)
			late.expect(t, "hello\n")
			if err := server.Shutdown(); err != nil {
				t.Error(err)
			}
			late.expectEnd(t, "")
			closed.expect(t, nil)
		})
	}
}

// TestUpgradeInAnySpelling: a server that keeps names finds the fields nevertheless.
func TestUpgradeInAnySpelling(t *testing.T) {
	_, connect := upgradeServer(t, sluice.EngineAuto, &tcp.Server{Handler: lines}, func(s *sluice.Server) { s.DisableHeaderNamesNormalizing = true })
	c := connect()
	c.send(t, "GET /lines HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: lines\r\n\r\n")
	if head := c.head(t); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Error(head)
	}
}

// TestUpgradeTimeouts: the time-outs are those of the tcp.Server.
func TestUpgradeTimeouts(t *testing.T) {
	closed := make(ends, 1)
	_, connect := upgradeServer(t, sluice.EngineAuto, &tcp.Server{Handler: lines, OnClose: closed.onClose, IdleTimeout: 20 * time.Millisecond})
	c := connect()
	c.send(t, askLines)
	c.head(t)
	c.expectEnd(t, "")
	closed.expect(t, os.ErrDeadlineExceeded)
}

func TestUpgradeRefusals(t *testing.T) {
	_, connect := upgradeServer(t, sluice.EngineAuto, &tcp.Server{Handler: lines})
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n":                                             "HTTP/1.1 426 ",
		"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: lines\r\n\r\n":                           "HTTP/1.1 426 ",
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: line\r\n\r\n":     "HTTP/1.1 426 ",
		"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: lines\r\n\r\n":               "HTTP/1.1 426 ",
		strings.Replace(askLines, "other, Lines", "other\r\nUpgrade: lines", 1) + "x\n": "HTTP/1.1 101 ",
	} {
		c := connect()
		c.send(t, request)
		if head := c.head(t); !strings.HasPrefix(head, want) {
			t.Errorf("%q: %s", request, head)
		}
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	c := connect()
	transport := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return c.Conn, nil }}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://h/")
	if err != nil || resp.StatusCode != 426 {
		t.Errorf("HTTP/2: %v, %v", resp, err)
	}
	stream := http2test.Dial(t, connect().Conn.RemoteAddr().String(), 64<<10).Open(false, [][2]string{{":method", "CONNECT"},
		{":protocol", "line"}, {":scheme", "http"}, {":authority", "h"}, {":path", "/"}}...)
	if status, err := stream.Status(); status != "501" {
		t.Errorf("CONNECT for another protocol: %q, %v", status, err)
	}
}
