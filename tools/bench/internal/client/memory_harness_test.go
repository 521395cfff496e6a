package client_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/fasthttputil"
)

func TestCheck(t *testing.T) {
	if err := check(200, []byte(responseBody), nil); err != nil {
		t.Error(err)
	}
	for _, err := range []error{check(500, []byte(responseBody), nil), check(200, nil, nil), check(200, []byte(responseBody), io.EOF)} {
		if err == nil {
			t.Error("a wrong answer passes")
		}
	}
}

// TestAnswerRaw: one answer for each head, wherever reads cut them.
func TestAnswerRaw(t *testing.T) {
	for _, size := range []int{1, 7, len(constantRequest), 1 << 20} {
		pipe := fasthttputil.NewPipeConns()
		go answerRaw(pipe.Conn2())
		const heads = 2*rawBatch + 3
		in := strings.Repeat(constantRequest, heads)
		go func() {
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				if _, err := pipe.Conn1().Write([]byte(rest[:n])); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		out := make([]byte, heads*len(response))
		if _, err := io.ReadFull(pipe.Conn1(), out); err != nil || string(out) != strings.Repeat(response, heads) {
			t.Errorf("pieces of %d: other answers, %v", size, err)
		}
		_ = pipe.Close()
	}
}

// TestFastConn: a Read that comes first waits for the request, and Close ends
// it.
func TestFastConn(t *testing.T) {
	c := newFastConn()
	read := make(chan error)
	go func() {
		buf := make([]byte, len(response))
		for {
			if _, err := io.ReadFull(c, buf); err != nil {
				read <- err
				return
			}
			if string(buf) != response {
				err := errors.New("another response")
				read <- err
				return
			}
			read <- nil
		}
	}()
	for range 1000 {
		if _, err := c.Write([]byte(constantRequest)); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\n")); err == nil {
		t.Error("half a request is taken")
	}
}
