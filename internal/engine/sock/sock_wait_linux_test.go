//go:build linux && !race && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"net"
	"slices"
	"syscall"
	"testing"
	"time"
)

// No call waits, also when somebody has made the socket blocking, as os.File.Fd
// of a duplicate does: the scheduler does not know of these calls.
func TestBlockingSocket(t *testing.T) {
	a, b := pair(t)
	if err := syscall.SetNonblock(a, false); err != nil {
		t.Fatal(err)
	}
	// If a call waits nevertheless, this ends it.
	end := time.AfterFunc(10*time.Second, func() { _ = syscall.Shutdown(b, syscall.SHUT_RDWR) })
	defer end.Stop()
	for _, c := range []struct {
		name string
		call func() syscall.Errno
	}{
		{"Recv", func() syscall.Errno {
			n, errno := Recv(a, make([]byte, 9))
			if n == 0 && errno == 0 {
				return syscall.EPIPE
			}
			return errno
		}},
		{"Send", func() syscall.Errno { _, errno := Send(a, make([]byte, 9000)); return errno }},
		{"long Send", func() syscall.Errno { _, errno := Send(a, make([]byte, 2*longestSend)); return errno }},
		{"Send of more", func() syscall.Errno { _, errno := new(Calls).Send(a, make([]byte, 9000), true); return errno }},
		{"SendBuffers", func() syscall.Errno {
			_, errno := SendBuffers(a, &net.Buffers{make([]byte, 5000), make([]byte, 5000)})
			return errno
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			errno := syscall.Errno(0)
			for errno == 0 {
				errno = c.call()
			}
			if errno != syscall.EAGAIN {
				t.Errorf("%v", errno)
			}
			for c.name != "Recv" { // make room
				if n, err := syscall.Read(b, make([]byte, 1<<20)); n <= 0 || err != nil {
					break
				}
			}
		})
	}
}

// A call copies a bounded number of bytes, because the thread keeps its P.
func TestVectorsAreBounded(t *testing.T) {
	half, third := make([]byte, longestSend/2), make([]byte, longestSend/3)
	for _, c := range []struct {
		name string
		v    net.Buffers
		want []uint64
	}{
		{"short", net.Buffers{third, nil, half}, []uint64{longestSend / 3, longestSend / 2}},
		{"as much as goes", net.Buffers{half, half, third}, []uint64{longestSend / 2, longestSend / 2}},
		{"the last one cut", net.Buffers{half, third, half}, []uint64{longestSend / 2, longestSend / 3, longestSend - longestSend/2 - longestSend/3}},
		{"one that is too long", net.Buffers{make([]byte, 3*longestSend)}, []uint64{longestSend}},
	} {
		var vectors [maxVectors]syscall.Iovec
		var got []uint64
		for _, vector := range vectors[:fillVectors(vectors[:], c.v)] {
			got = append(got, uint64(vector.Len))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
