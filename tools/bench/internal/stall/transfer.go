package stall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A transferConfig says what large bodies are moved.
type transferConfig struct {
	Addr     string
	Target   string
	Size     int64 // of each body
	Parallel int
	Upload   bool
	TLS      bool
}

// A transferResult is what became of them.
type transferResult struct {
	Elapsed time.Duration
	Sums    []uint32 // of the bodies, as checksum makes them: those that arrived
}

// transferAll moves bodies at the same time, from a process of its own.
func transferAll(ctx context.Context, c transferConfig) (result transferResult, err error) {
	child, err := process.Start(ctx, process.Options{CPU: process.AnyCPU}, transferRole, c)
	if err != nil {
		return result, err
	}
	if err := child.Result(&result); err != nil {
		return result, err
	}
	return result, child.Stop()
}

// checksum is a checksum of a body (CRC-32C), which processors compute faster than
// they copy.
func checksum(body io.Reader) (sum uint32, size int64, err error) {
	hash := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	size, err = io.Copy(hash, body)
	return hash.Sum32(), size, err
}

// zeroBody returns a body of zeros.
func zeroBody(size int64) io.Reader { return io.LimitReader(zeros{}, size) }

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// transfer is the client's process.
func transfer(config transferConfig) error {
	result := transferResult{Sums: make([]uint32, config.Parallel)}
	errs := make([]error, config.Parallel)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range config.Parallel {
		wg.Go(func() { result.Sums[i], errs[i] = transferOne(config) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	result.Elapsed = time.Since(begin)
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}

// transferOne moves one body, and returns the checksum of what arrived. The server answers an
// upload, which is zeros, with the checksum of what it got.
func transferOne(config transferConfig) (sum uint32, err error) {
	req := new(sluice.Request)
	if config.Upload {
		req.Header.SetMethod(sluice.MethodPost)
		req.SetBodyStream(zeroBody(config.Size), int(config.Size))
	}
	resp, d, err := ask(newDialer(), config.Addr, config.Target, config.TLS, req)
	if err != nil {
		return 0, err
	}
	defer d.reset()
	if config.Upload {
		sum, err := strconv.ParseUint(strings.TrimSpace(string(resp.Body())), 10, 32)
		return uint32(sum), err
	}
	sum, size, err := checksum(d.body)
	if err == nil && size != config.Size {
		err = fmt.Errorf("%d bytes of %d", size, config.Size)
	}
	return sum, err
}
