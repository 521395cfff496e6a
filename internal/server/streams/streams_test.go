package streams

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A fakeExchange notes the content that it gets, up to room bytes.
type fakeExchange struct {
	server.Exchange
	conn       net.Conn
	did        strings.Builder
	room       int
	isCanceled bool
}

func (f *fakeExchange) NetConn() net.Conn { return f.conn }
func (f *fakeExchange) Cancel()           { f.isCanceled = true }

func (f *fakeExchange) SendData(p []byte, isLast bool) bool {
	if f.room -= len(p); f.room < 0 {
		return false
	}
	f.did.Write(p)
	if isLast {
		f.did.WriteString(" end")
	}
	return true
}

// A closer is closed with an error of its own.
type closer struct{ err error }

func (c closer) Close() error { return c.err }

// A file is sent in pieces, up to its size, and is closed whatever happens.
func TestSendFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "digits")
	if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	failed := errors.New("closing failed")
	for _, row := range []struct {
		name    string
		size    int64
		room    int
		closing error
		want    string
		err     error
	}{
		{"whole", 10, 99, nil, "0123456789 end", nil},
		{"a part", 7, 99, nil, "0123456 end", nil},
		{"empty", 0, 99, nil, " end", nil},
		{"shorter than announced", 11, 99, nil, "0123456789", io.ErrUnexpectedEOF},
		{"the client has gone", 10, 5, nil, "0123", server.ErrConnectionClosed},
		{"the client has gone at the end", 10, 10, nil, "0123456789 end", nil},
		{"closing fails", 10, 99, failed, "0123456789", failed},
	} {
		x := &fakeExchange{room: row.room}
		err := SendFile(x, engine.File{Source: f, Size: row.size, Done: closer{row.closing}}, make([]byte, 4))
		if got := x.did.String(); got != row.want || err != row.err {
			t.Errorf("%s: %q, %v; want %q, %v", row.name, got, err, row.want, row.err)
		}
	}
}

// A refusedRequest notes why it is refused.
type refusedRequest struct {
	server.Request
	err, public error
}

func (r *refusedRequest) Refuse(err, public error) { r.err, r.public = err, public }

// A head that exceeds the buffer is told to users as the error that names the buffer.
func TestRefuse(t *testing.T) {
	other := errors.New("another")
	for err, isBuffer := range map[error]bool{error(h1.ErrHeadTooLarge): true, error(h1.ErrLineTooLong): true, other: false, server.ErrTimeout: false} {
		var r refusedRequest
		Refuse(&r, err)
		if r.err != err || (r.public != err) != isBuffer || !errors.Is(r.public, err) {
			t.Errorf("%v is told as %v", err, r.public)
		}
	}
}

func TestFields(t *testing.T) {
	var h message.ResponseHeader
	if got := string(TrailerFields{&h.Header}.AppendFields(nil, textEncoder{})); got != "" {
		t.Errorf("no trailer fields: %q", got)
	}
	var interim message.ResponseHeader
	interim.SetStatus(103)
	interim.Put("Link", []byte("</a>"), message.Adds)
	interim.Put("Link", []byte(" </b>\r\nX: y "), message.Adds)
	hints := InterimFields{&interim}
	if got := string(hints.AppendFields(nil, textEncoder{})); got != "103 Link=</a> Link=</b>  X: y " {
		t.Errorf("hints: %q", got)
	}
}

// A secureConn has a TLS state.
type secureConn struct{ net.Conn }

func (secureConn) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{ServerName: "host"}
}

// A UserConn tells of the connection, and closes the stream of its request only.
func TestUserConn(t *testing.T) {
	unsupported := errors.New("unsupported")
	x := &fakeExchange{conn: secureConn{}}
	c := NewUserConn(x, unsupported)
	if name := c.ConnectionState().ServerName; name != "host" {
		t.Errorf("the state of TLS is that of %q", name)
	}
	if _, err := c.Write(nil); err != unsupported {
		t.Errorf("Write: %v", err)
	}
	if err := c.Close(); err != nil || !x.isCanceled {
		t.Errorf("Close: %v, %v", err, x.isCanceled)
	}
	c.End()
	if err := c.Close(); err != net.ErrClosed {
		t.Errorf("Close after the request: %v", err)
	}
	if state := NewHijackedConn(&fakeTunnel{}, secureConn{}, false).ConnectionState(); state.ServerName != "host" {
		t.Errorf("the state of a tunnel is that of %q", state.ServerName)
	}
	if state := TLSStateOf(nil); state.HandshakeComplete {
		t.Error("a state without TLS")
	}
}
