package stall

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/load"
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

// transferOne moves one body, and returns the checksum of what arrived.
func transferOne(config transferConfig) (sum uint32, err error) {
	c, err := open(newDialer(), config.Addr, config.TLS)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if config.Upload {
		return upload(config, c)
	}
	if _, err := c.Write(load.Get(config.Target, "")); err != nil {
		return 0, err
	}
	response, err := readOK(c)
	if err != nil {
		return 0, err
	}
	sum, size, err := checksum(response.Body)
	if err == nil && size != config.Size {
		err = fmt.Errorf("%d bytes of %d", size, config.Size)
	}
	return sum, err
}

// upload sends zeros. The server answers with the checksum of what it got.
func upload(config transferConfig, c net.Conn) (uint32, error) {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: %d\r\n\r\n", config.Target, config.Size)
	if _, err := io.WriteString(c, head); err != nil {
		return 0, err
	}
	chunk := make([]byte, 256<<10)
	for left := config.Size; left > 0; {
		n, err := c.Write(chunk[:min(left, int64(len(chunk)))])
		if err != nil {
			return 0, fmt.Errorf("%d bytes before the end of an upload: %w", left, err)
		}
		left -= int64(n)
	}
	response, err := readOK(c)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	sum, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	return uint32(sum), err
}

func readOK(c net.Conn) (*http.Response, error) {
	response, err := http.ReadResponse(bufio.NewReaderSize(c, 64<<10), nil)
	if err == nil && response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		err = fmt.Errorf("status %s: %s", response.Status, text)
	}
	return response, err
}
