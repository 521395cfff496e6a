package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/process"
)

// A HoldConfig says what connections are held.
type HoldConfig struct {
	Addr  string
	Conns int
	TLS   bool
}

// holdConfig is what one process gets.
type holdConfig struct {
	HoldConfig
	Source string
}

// perProcess bounds the connections of a client's process.
const perProcess = 15_000

// Hold opens connections from as many processes as it takes, each from an
// address of its own, and returns when all have had two answers. They are held
// until the processes are stopped.
func Hold(ctx context.Context, c HoldConfig) (children []*process.Child, err error) {
	for i, conns := range split(c.Conns, perProcess) {
		config := holdConfig{HoldConfig: c, Source: sourceAddress(i)}
		config.Conns = conns
		child, err := process.Start(ctx, process.Options{CPU: process.AnyCPU}, holdRole, config)
		if err != nil {
			return nil, errors.Join(err, process.StopAll(children))
		}
		if _, err := child.Line(); err != nil {
			return nil, errors.Join(err, process.StopAll(children))
		}
		children = append(children, child)
	}
	return children, nil
}

// split divides n into equal parts of at most so many.
func split(n, most int) []int {
	parts := make([]int, (n+most-1)/most)
	for i := range parts {
		parts[i] = n / len(parts)
		if i < n%len(parts) {
			parts[i]++
		}
	}
	return parts
}

// sourceAddress returns the address of client process i. The first loopback
// addresses are the servers'.
func sourceAddress(i int) string { return fmt.Sprintf("127.0.1.%d", 1+i) }

// hold is the client's process: it opens connections, says so when all have
// been answered, and holds them until its standard input ends.
func hold(config holdConfig) error {
	conns, err := openAll(config.Conns, func(int) (net.Conn, error) {
		c, err := open(newDialer(config.Source), config.Addr, config.TLS)
		if err != nil {
			return nil, err
		}
		return c, askTwice(c)
	})
	if err != nil {
		return err
	}
	fmt.Println("holding", len(conns))
	_, err = io.Copy(io.Discard, os.Stdin)
	for _, c := range conns {
		reset(c)
	}
	return err
}

// askTwice gets two answers: the first one may leave more behind in a server
// than the connection will have for the rest of its life.
func askTwice(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	request, buf := requestFor("/", ""), make([]byte, answerSize)
	for range 2 {
		if err := ask(c, request, buf); err != nil {
			return err
		}
	}
	return c.SetDeadline(time.Time{})
}

// openAll opens n connections, several at a time.
func openAll(n int, open func(i int) (net.Conn, error)) ([]net.Conn, error) {
	conns := make([]net.Conn, n)
	errs := make([]error, openers)
	var wg sync.WaitGroup
	for opener := range openers {
		wg.Go(func() {
			for i := opener; i < n && errs[opener] == nil; i += openers {
				conns[i], errs[opener] = open(i)
			}
		})
	}
	wg.Wait()
	return conns, errors.Join(errs...)
}
