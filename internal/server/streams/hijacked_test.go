package streams

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A fakeTunnel notes what it gets.
type fakeTunnel struct {
	net.Conn
	did strings.Builder
}

func (f *fakeTunnel) SendHead(fields Fields, isInterim, isLast bool) bool {
	f.did.Write(fields.AppendFields(nil, textEncoder{}))
	if isInterim {
		f.did.WriteString("interim ")
	}
	if isLast {
		f.did.WriteString("last ")
	}
	return true
}

func (f *fakeTunnel) Write(p []byte) (int, error) { return f.did.Write(p) }
func (f *fakeTunnel) CloseWrite() error           { f.did.WriteString("closed"); return nil }
func (f *fakeTunnel) Outlive() bool               { return true }
func (f *fakeTunnel) Revoke()                     { f.did.WriteString("revoked") }
func (f *fakeTunnel) Abort()                      { f.did.WriteString("aborted") }

// A textEncoder writes fields as text.
type textEncoder struct{}

func (textEncoder) AppendStatus(dst []byte, status int) []byte {
	return append(dst, byte(status/100)+'0', byte(status/10%10)+'0', byte(status%10)+'0', ' ')
}

func (textEncoder) AppendRequest(dst []byte, _ fieldlist.RequestFields) []byte { return dst }

func (textEncoder) AppendField(dst []byte, _ field.ID, name, value []byte) []byte {
	return append(bytes.Join([][]byte{append(dst, name...), value}, []byte("=")), ' ')
}

func (textEncoder) AppendServer(dst, _, _ []byte) []byte { return dst }

func (textEncoder) AppendLength(dst []byte, _ int64) []byte { return append(dst, "length "...) }
func (textEncoder) AppendDate(dst, _ []byte) []byte         { return dst }

// What a handler writes as a response of HTTP/1.1 becomes a head, in whatever pieces.
func TestHijackedConnWrite(t *testing.T) {
	for _, row := range []struct{ name, write, want string }{
		{"accepted", "HTTP/1.1 101 Switching Protocols\r\nX: y\r\nSec-WebSocket-Accept: k\r\n\r\nbytes", "200 X=y bytes"},
		{"refused", "HTTP/1.1 403 Forbidden\r\nX: y\r\n\r\ncontent", "403 X=y last "},
		{"interim", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\nz", "103 interim 200 z"},
		{"no head", "GET / HTTP/1.1\r\n\r\n", "aborted"},
		{"long", strings.Repeat("x", maxTunnelHead+1), "aborted"},
	} {
		for _, size := range []int{len(row.write), 1} {
			var f fakeTunnel
			c := NewHijackedConn(&f, nil, false)
			for rest := row.write; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if _, err := c.Write([]byte(rest[:min(size, len(rest))])); err != nil {
					break
				}
			}
			if got := f.did.String(); got != row.want {
				t.Errorf("%s, %d bytes at a time: %q, want %q", row.name, size, got, row.want)
			}
		}
	}
}

// The final head is sent once, whoever sends it.
func TestHijackedConnAnswersOnce(t *testing.T) {
	var h message.ResponseHeader
	h.SetStatus(101)
	var f fakeTunnel
	c := NewHijackedConn(&f, nil, true)
	if !errors.Is(c.CloseWrite(), net.ErrClosed) {
		t.Error("CloseWrite before the answer")
	}
	if !c.Answer(&h, message.Framing{Length: -2, OmitDefaultType: true}) || h.Status() != 101 {
		t.Error("it is not answered")
	}
	if c.Answer(&h, message.Framing{}) || c.Revoke() {
		t.Error("it is answered twice")
	}
	if err := c.CloseWrite(); err != nil || f.did.String() != "200 closed" {
		t.Errorf("%q, %v", f.did.String(), err)
	}
	f = fakeTunnel{}
	c = NewHijackedConn(&f, nil, false)
	if !c.Revoke() || f.did.String() != "revoked" {
		t.Errorf("%q", f.did.String())
	}
	if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Revoke: %v", err)
	}
}

// A handler that panics resets the stream.
func TestHijackedConnServe(t *testing.T) {
	for hasReturned, want := range map[bool]string{true: "", false: "aborted"} {
		var f fakeTunnel
		NewHijackedConn(&f, nil, false).Serve(nil, func(net.Conn, func(net.Conn)) bool { return hasReturned })
		if got := f.did.String(); got != want {
			t.Errorf("%v: %q", hasReturned, got)
		}
	}
}

// The head of an extended CONNECT for a WebSocket is shown as the upgrade of HTTP/1.1.
func TestShowUpgrade(t *testing.T) {
	for _, row := range []struct{ protocol, key, want string }{
		{"WebSocket", "", "GET websocket"}, {"websocket", "k", "GET websocket"}, {"other", "", "CONNECT "},
	} {
		var h message.RequestHeader
		h.Table.SetRaw([]byte(row.protocol))
		h.SetMethod([]byte("CONNECT"))
		h.SetConnect(h1.Span{End: len(row.protocol)})
		if row.key != "" {
			h.Put(keyName, []byte(row.key), message.Sets)
		}
		isKeyed := ShowUpgrade(&h)
		if got := string(h.Method()) + " " + string(bytes.Join(h.AppendAny(nil, "Upgrade"), nil)); got != row.want || isKeyed != (row.key != "") {
			t.Errorf("%+v: %q, %v", row, got, isKeyed)
		}
		if key := bytes.Join(h.AppendAny(nil, keyName), nil); row.protocol != "other" && row.key == "" && len(key) != 24 {
			t.Errorf("%+v: key %q", row, key)
		}
	}
}
