package engine

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

func TestWithUnread(t *testing.T) {
	client, server := net.Pipe()
	if got := WithUnread(server, nil, nil); got != server {
		t.Error("there is a wrapper around nothing")
	}
	c := WithUnread(server, []byte("hello "), nil)
	go func() {
		_, _ = client.Write([]byte("world"))
		_ = client.Close()
	}()
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil): %d, %v", n, err)
	}
	if got, err := io.ReadAll(iotest.OneByteReader(c)); string(got) != "hello world" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil) at the end: %d, %v", n, err)
	}
	if got := c.(interface{ NetConn() net.Conn }).NetConn(); got != server {
		t.Error("NetConn is another connection")
	}
}

// halfPipe can close its sending side.
type halfPipe struct {
	net.Conn
	closed bool
}

func (h *halfPipe) CloseWrite() error { h.closed = true; return nil }

func TestWithUnreadCloseWrite(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	half := &halfPipe{Conn: server}
	type halfCloser interface{ CloseWrite() error }
	if err := WithUnread(half, []byte("x"), nil).(halfCloser).CloseWrite(); err != nil || !half.closed {
		t.Errorf("CloseWrite: %v, passed on %v", err, half.closed)
	}
	if err := WithUnread(server, []byte("x"), nil).(halfCloser).CloseWrite(); err != errors.ErrUnsupported {
		t.Errorf("CloseWrite of what cannot: %v", err)
	}
}

func TestWithUnreadAhead(t *testing.T) {
	client, server := net.Pipe()
	ahead := iotest.OneByteReader(strings.NewReader("ahead "))
	c := WithUnread(server, []byte("rest "), func(p []byte) (int, error) {
		n, err := ahead.Read(p)
		if err == io.EOF {
			err = nil // it has nothing more
		}
		return n, err
	})
	go func() {
		_, _ = client.Write([]byte("conn"))
		_ = client.Close()
	}()
	if got, err := io.ReadAll(c); string(got) != "rest ahead conn" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}
