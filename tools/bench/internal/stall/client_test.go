package stall

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
)

// startBodies starts a server that has size bytes to send, and that answers
// uploads with their checksum.
func startBodies(t *testing.T, size int) (server *httptest.Server, addr string) {
	body := bytes.Repeat([]byte("body"), size/4)
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			sum, _, err := checksum(r.Body)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
			}
			fmt.Fprintln(w, sum)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server, server.Listener.Addr().String()
}

func TestClientsStall(t *testing.T) {
	const size, read = 8 << 20, 1 << 20
	for _, isCut := range []bool{true, false} {
		t.Run(fmt.Sprint("cut ", isCut), func(t *testing.T) {
			server, addr := startBodies(t, size)
			config := stallConfig{Addr: addr, Target: "/", Conns: 3, Size: size, Read: read}
			downloads, err := openAll(config.Conns, func() (download, error) { return openStalled(config) })
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range downloads {
				defer d.reset()
			}
			if isCut {
				server.CloseClientConnections()
			}
			r := drain(config, downloads)
			switch {
			case isCut && (r.Cut != 3 || r.Complete != 0 || r.LeastRead < read || r.MostRead >= size || r.MostRead < r.LeastRead):
				t.Errorf("cut: %+v", r)
			case !isCut && (r.Complete != 3 || r.Cut != 0):
				t.Errorf("not cut: %+v", r)
			}
		})
	}
}

func TestStalledClientsWantTheBody(t *testing.T) {
	_, addr := startBodies(t, 1<<20)
	if _, err := openStalled(stallConfig{Addr: addr, Target: "/", Size: 1 << 21, Read: 1}); err == nil {
		t.Error("no error from a body of another size")
	}
}

func TestCount(t *testing.T) {
	var r stallResult
	for _, end := range []struct {
		n   int64
		err error
	}{{5, io.ErrUnexpectedEOF}, {3, syscall.ECONNRESET}, {9, nil}, {4, os.ErrDeadlineExceeded}, {1, io.ErrClosedPipe}} {
		r.count(end.n, end.err)
	}
	if want := (stallResult{Cut: 2, Complete: 1, Open: 1, Other: io.ErrClosedPipe.Error(), LeastRead: 3, MostRead: 5}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
}

func TestTransferOne(t *testing.T) {
	const size = 3<<20 + 4
	_, addr := startBodies(t, size)
	for _, isUpload := range []bool{true, false} {
		body := zeroBody(size)
		if !isUpload {
			body = bytes.NewReader(bytes.Repeat([]byte("body"), size/4))
		}
		want, n, err := checksum(body)
		if err != nil || n != size {
			t.Fatalf("%d bytes, %v", n, err)
		}
		config := transferConfig{Addr: addr, Target: "/", Size: size, Upload: isUpload}
		if got, err := transferOne(config); err != nil || got != want {
			t.Errorf("upload %v: checksum %d, %v, want %d", isUpload, got, err, want)
		}
		config.Size++
		if got, err := transferOne(config); got == want && err == nil {
			t.Errorf("upload %v: a longer body has the same checksum, and no error", isUpload)
		}
	}
}
