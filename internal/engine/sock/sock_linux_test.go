//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"bytes"
	"net"
	"syscall"
	"testing"
)

// pair returns two connected sockets that do not block.
func pair(t *testing.T) (a, b int) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Close(fds[0])
		_ = syscall.Close(fds[1])
	})
	return fds[0], fds[1]
}

// receive reads all that is there.
func receive(t *testing.T, fd int) []byte {
	var got []byte
	buffer := make([]byte, 100_000)
	for {
		n, errno := Recv(fd, buffer)
		if errno == syscall.EAGAIN {
			return got
		}
		if errno != 0 || n == 0 {
			t.Fatal(n, errno)
		}
		got = append(got, buffer[:n]...)
	}
}

func TestSendRecv(t *testing.T) {
	a, b := pair(t)
	buffer := make([]byte, 10)
	if n, errno := Recv(b, buffer); n != 0 || errno != syscall.EAGAIN {
		t.Errorf("Recv of nothing: %d, %v", n, errno)
	}
	if n, errno := Send(a, []byte("hello")); n != 5 || errno != 0 {
		t.Errorf("Send: %d, %v", n, errno)
	}
	if n, errno := Recv(b, buffer); string(buffer[:n]) != "hello" || errno != 0 {
		t.Errorf("Recv: %q, %v", buffer[:n], errno)
	}
	if err := syscall.Shutdown(a, syscall.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if n, errno := Recv(b, buffer); n != 0 || errno != 0 {
		t.Errorf("Recv at the end: %d, %v", n, errno)
	}
	if n, errno := Send(a, []byte("x")); n != 0 || errno != syscall.EPIPE {
		t.Errorf("Send after the end: %d, %v", n, errno)
	}
	if n, errno := Recv(-1, buffer); n != 0 || errno != syscall.EBADF {
		t.Errorf("Recv from nowhere: %d, %v", n, errno)
	}
}

// TestSendFull sends until there is no room, in calls short and long.
func TestSendFull(t *testing.T) {
	for _, size := range []int{1000, 200_000} {
		a, b := pair(t)
		p := bytes.Repeat([]byte("0123456789"), size/10)
		var sent []byte
		for {
			n, errno := Send(a, p)
			if errno == syscall.EAGAIN {
				break
			}
			if errno != 0 || n == 0 {
				t.Fatal(n, errno)
			}
			sent = append(sent, p[:n]...)
		}
		if got := receive(t, b); !bytes.Equal(got, sent) {
			t.Errorf("%d bytes arrived of %d", len(got), len(sent))
		}
	}
}

func TestSendBuffers(t *testing.T) {
	many := make(net.Buffers, 3*maxVectors)
	for i := range many {
		many[i] = []byte{byte(i)}
	}
	for _, test := range []struct {
		name  string
		v     net.Buffers
		calls int
	}{
		{"none", nil, 1},
		{"empty ones", net.Buffers{nil, {}}, 1},
		{"one", net.Buffers{[]byte("x")}, 1},
		{"with empty ones", net.Buffers{nil, []byte("ab"), {}, []byte("c"), nil}, 1},
		{"many", many, 3},
	} {
		a, b := pair(t)
		v := append(net.Buffers(nil), test.v...)
		want := bytes.Join(v, nil)
		written := int64(0)
		for range test.calls {
			n, errno := SendBuffers(a, &v)
			if errno != 0 {
				t.Fatalf("%s: %v", test.name, errno)
			}
			written += n
		}
		if len(v) != 0 || written != int64(len(want)) {
			t.Errorf("%s: %d bytes written, %d buffers left", test.name, written, len(v))
		}
		if got := receive(t, b); !bytes.Equal(got, want) {
			t.Errorf("%s: %q arrived, want %q", test.name, got, want)
		}
	}
}

// TestSendBuffersFull sends more than goes at once.
func TestSendBuffersFull(t *testing.T) {
	a, b := pair(t)
	v := net.Buffers{nil}
	for i := range 100 {
		v = append(v, bytes.Repeat([]byte{byte(i)}, 33_333), nil)
	}
	want := bytes.Join(v, nil)
	var got []byte
	written := int64(0)
	for stops := 0; len(v) > 0; {
		n, errno := SendBuffers(a, &v)
		written += n
		switch {
		case errno == syscall.EAGAIN && n == 0 && len(v[0]) > 0:
			stops++
			got = append(got, receive(t, b)...)
		case errno != 0, n == 0:
			t.Fatal(n, errno)
		}
		if len(v) == 0 && stops == 0 {
			t.Error("everything went at once")
		}
	}
	if got = append(got, receive(t, b)...); !bytes.Equal(got, want) || written != int64(len(want)) {
		t.Errorf("%d bytes arrived of %d, %d written", len(got), len(want), written)
	}
	_ = syscall.Shutdown(a, syscall.SHUT_WR)
	v = net.Buffers{nil, []byte("x")}
	if n, errno := SendBuffers(a, &v); n != 0 || errno != syscall.EPIPE || len(v) != 1 {
		t.Errorf("after the end: %d, %v, %d buffers left", n, errno, len(v))
	}
}
