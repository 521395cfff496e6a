package stall

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const (
	stallRole    = "stall"
	transferRole = "transfer"
)

// Roles has what the subcommand's processes do.
func Roles() map[string]process.Role {
	return map[string]process.Role{
		stallRole: role(stall), transferRole: role(transfer), serveRole: process.ServiceRole(newService),
	}
}

// A stallConfig says what clients stop reading in the middle.
type stallConfig struct {
	Addr   string
	Target string
	Conns  int
	Size   int64 // of the answer's body
	Read   int64 // bytes of it that are read before the clients stall
	TLS    bool
}

// A stallResult is what became of stalled clients.
type stallResult struct {
	Cut      int    // connections that ended before the answer did
	Complete int    // those that got all of it
	Open     int    // those that were still there
	Other    string // what else a connection ended with, the last one
	// MostRead and LeastRead are how many bytes of the body a client got that
	// was cut, with what the kernels had when it stalled.
	MostRead, LeastRead int64
}

// A stalledProcess is a process with stalled clients.
type stalledProcess struct{ *process.Child }

// startStall opens the connections and returns when all have stalled.
func startStall(ctx context.Context, c stallConfig) (*stalledProcess, error) {
	if c.Conns > perProcess {
		return nil, fmt.Errorf("%d stalled clients: want at most %d", c.Conns, perProcess)
	}
	child, err := process.Start(ctx, process.Options{CPU: process.AnyCPU}, stallRole, c)
	if err != nil {
		return nil, err
	}
	if _, err := child.Line(); err != nil {
		return nil, err
	}
	return &stalledProcess{child}, nil
}

// drain has the clients read on until their connections end.
func (s *stalledProcess) drain() (result stallResult, err error) {
	if err := s.Tell("drain"); err != nil {
		return result, err
	}
	return result, s.Result(&result)
}

// stall is the client's process.
func stall(config stallConfig) error {
	downloads, err := openAll(config.Conns, func() (download, error) { return openStalled(config) })
	if err != nil {
		return err
	}
	defer func() {
		for _, d := range downloads {
			d.reset()
		}
	}()
	fmt.Println("stalled", len(downloads))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		text, err := json.Marshal(drain(config, downloads))
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return nil
}

// stalledBuffer is the size of a stalled client's buffers, in bytes: its
// kernel's and its own.
const stalledBuffer = 64 << 10

// openStalled opens a connection, sends a request and reads the first part of
// the answer's body.
func openStalled(config stallConfig) (download, error) {
	dialer := newDialer()
	dialer.Control = likeAPhone
	resp, d, err := ask(dialer, config.Addr, config.Target, config.TLS, new(sluice.Request))
	if err != nil {
		return d, err
	}
	if size := resp.Header.ContentLength(); int64(size) != config.Size {
		d.reset()
		return d, fmt.Errorf("%d bytes, want %d", size, config.Size)
	}
	if _, err := io.CopyN(io.Discard, d.body, config.Read); err != nil {
		d.reset()
		return d, fmt.Errorf("before it stalled: %w", err)
	}
	return d, nil
}

// likeAPhone gives a connection small buffers and segments as outside of the
// loopback interface: with segments of 64 KiB the server's kernel would take in
// some megabytes for each connection, and nearly all of the body.
func likeAPhone(_, _ string, c syscall.RawConn) error {
	const segment = 1440
	var err error
	controlErr := c.Control(func(fd uintptr) {
		err = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, stalledBuffer),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, segment))
	})
	return errors.Join(controlErr, err)
}

// drain reads on, all connections at the same time.
func drain(config stallConfig, downloads []download) (result stallResult) {
	deadline := time.Now().Add(patience)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, d := range downloads {
		wg.Go(func() {
			_ = d.conn.SetReadDeadline(deadline)
			n, err := io.Copy(io.Discard, d.body)
			mu.Lock()
			defer mu.Unlock()
			result.count(config.Read+n, err)
		})
	}
	wg.Wait()
	return result
}

// count counts a connection whose client got n bytes before the error.
func (r *stallResult) count(n int64, err error) {
	switch {
	case err == nil:
		r.Complete++
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.Open++
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		if r.Cut == 0 || n < r.LeastRead {
			r.LeastRead = n
		}
		r.MostRead = max(r.MostRead, n)
		r.Cut++
	default:
		r.Other = err.Error()
	}
}
