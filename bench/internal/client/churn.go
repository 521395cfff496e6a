package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/process"
)

// A ChurnConfig says how many connections are opened and closed.
type ChurnConfig struct {
	Addr  string
	Conns int
	Width int // connections open at a time
}

// A ChurnResult is what became of them.
type ChurnResult struct {
	Opened, Failed int
	FirstError     string
	Elapsed        time.Duration
}

// Churn opens and closes connections from a process of its own.
func Churn(ctx context.Context, c ChurnConfig) (result ChurnResult, err error) {
	child, err := process.Start(ctx, process.Options{CPU: process.AnyCPU}, churnRole, c)
	if err != nil {
		return result, err
	}
	if err := child.Result(&result); err != nil {
		return result, err
	}
	return result, child.Stop()
}

// connsPerSource bounds the connections from one address: each may occupy a
// port for a minute (TIME_WAIT).
const connsPerSource = 10_000

// churn is the client's process.
func churn(config ChurnConfig) error {
	var dialers []*net.Dialer
	for i := range len(split(config.Conns, connsPerSource)) {
		dialers = append(dialers, newDialer(sourceAddress(i)))
	}
	var result ChurnResult
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for range config.Width {
		wg.Go(func() {
			buf := make([]byte, answerSize)
			for i := int(next.Add(1)) - 1; i < config.Conns; i = int(next.Add(1)) - 1 {
				err := once(dialers[i%len(dialers)], config.Addr, i, buf)
				mu.Lock()
				result.Opened++
				if err != nil {
					result.Failed++
					result.FirstError = err.Error()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	result.Elapsed = time.Since(begin)
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// once is the life of connection i: a request, and an end in one of three ways.
func once(dialer *net.Dialer, addr string, i int, buf []byte) error {
	c, err := open(dialer, addr, false)
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	const waysToEnd = 3
	switch i % waysToEnd {
	case 0: // the client closes a connection that the server keeps alive
		err = ask(c, requestFor("/", ""), buf)
		return errors.Join(err, c.Close())
	case 1: // the server closes
		defer c.Close()
		if err := ask(c, requestFor("/", "Connection: close\r\n"), buf); err != nil {
			return err
		}
		if n, err := c.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
			return fmt.Errorf("%d bytes and %v after the last answer, want the end", n, err)
		}
		return nil
	default: // the client resets
		err = ask(c, requestFor("/", ""), buf)
		reset(c)
		return err
	}
}
