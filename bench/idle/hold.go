package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/peers"
)

const holdRole = "hold"

const (
	request = "GET / HTTP/1.1\r\nHost: www.example.com\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
		"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\r\n"
	requestsPerConn = 2
	dialers         = 16 // connections opened at a time
)

// hold is a client's process: it opens connections to an address from a source
// address, says so when all have been answered, and holds them until its
// standard input ends.
func hold(args []string) error {
	if len(args) != 3 {
		return errors.New("want server's address, number of connections, own address")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	dialer := &net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.ParseIP(args[2])},
		Timeout:   10 * time.Second,
		KeepAlive: -1,
		Control:   bindWithoutPort,
	}
	dialer.SetMultipathTCP(false)
	conns := make([]net.Conn, n)
	errs := make([]error, dialers)
	var wg sync.WaitGroup
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < n && errs[d] == nil; i += dialers {
				conns[i], errs[d] = open(dialer, args[0])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Println("holding", n)
	io.Copy(io.Discard, os.Stdin)
	for _, c := range conns {
		// A reset leaves no connection in TIME_WAIT: the next server's clients
		// need the ports.
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	return nil
}

// bindWithoutPort leaves the choice of the port to connect, which knows the
// other end and so has more to choose from (IP_BIND_ADDRESS_NO_PORT, ip(7)).
func bindWithoutPort(_, _ string, c syscall.RawConn) error {
	const ipBindAddressNoPort = 24
	var err error
	controlErr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipBindAddressNoPort, 1)
	})
	return errors.Join(controlErr, err)
}

// open dials and has its requests answered.
func open(dialer *net.Dialer, addr string) (net.Conn, error) {
	c, err := dialer.Dial("tcp4", addr)
	if err != nil {
		return nil, err
	}
	// Closing resets: thousands of ports in TIME_WAIT would stop the next run.
	_ = c.(*net.TCPConn).SetLinger(0)
	for range requestsPerConn {
		if err := ask(c); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// ask sends a request and reads its response, which ends in peers.Body.
func ask(c net.Conn) error {
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	var buf [1024]byte
	for n := 0; ; {
		k, err := c.Read(buf[n:])
		if err != nil {
			return err
		}
		n += k
		if bytes.HasSuffix(buf[:n], []byte(peers.Body)) {
			break
		}
		if n == len(buf) {
			return fmt.Errorf("unexpected response: %q", buf[:n])
		}
	}
	return c.SetReadDeadline(time.Time{})
}
