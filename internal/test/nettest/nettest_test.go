package nettest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

func TestListener(t *testing.T) {
	ln := NewListener()
	wrapped := false
	ln.Wrap = func(c net.Conn) net.Conn { wrapped = true; return NoDeadlines{c} }
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Unix(1, 0)) // ignored
		_, _ = io.WriteString(c, "hello")
		_ = c.Close()
	}()
	c, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if !wrapped {
		t.Error("Wrap was not called")
	}
	_ = ln.Close()
	_ = ln.Close()
	if _, err := ln.Dial(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial after Close: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
}

func TestFailingListener(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	ln := &FailingListener{Listener: NewListener(), Errors: []error{first, second}}
	_ = ln.Close()
	for _, want := range []error{first, second, net.ErrClosed} {
		if _, err := ln.Accept(); !errors.Is(err, want) {
			t.Errorf("Accept: %v, want %v", err, want)
		}
	}
}

func TestWriteCut(t *testing.T) {
	for size := 1; size <= 8; size++ {
		var out bytes.Buffer
		waits := 0
		err := WriteCut(&out, []byte("1234567"), size, func(n int) {
			if waits++; n != out.Len() || n != waits*size {
				t.Errorf("size %d: wait(%d) after %d bytes", size, n, out.Len())
			}
		})
		if err != nil || out.String() != "1234567" || waits != (7+size-1)/size-1 {
			t.Errorf("size %d: %q, %d waits, %v", size, out.String(), waits, err)
		}
	}
}

func TestFreeAddr(t *testing.T) {
	for range 10 {
		addr, err := FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp4", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close()
	}
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for after, most := range map[time.Duration]int{0: 1, time.Millisecond: 7, time.Second: 100, time.Minute: 3100} {
			began, calls := time.Now(), 0
			if !Poll(time.Hour, func() bool { calls++; return time.Since(began) >= after }) {
				t.Errorf("%v: it gave up", after)
			}
			if late := time.Since(began) - after; late > 20*time.Millisecond || calls > most {
				t.Errorf("%v: %d calls, %v late", after, calls, late)
			}
		}
		began := time.Now()
		if Poll(time.Second, func() bool { return false }) {
			t.Error("what is never so was so")
		}
		if took := time.Since(began); took <= time.Second || took > time.Second+20*time.Millisecond {
			t.Errorf("it gave up after %v", took)
		}
	})
}
