package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const proxyLine = "PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n"

// askBehind sends a request on a new connection after header, and returns the status, 0 for an
// end without an answer.
func (p *process) askBehind(t *testing.T, header string) int {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, header+"GET /plaintext HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// The access log has the client's address, with one process and with several.
func TestServeProxyProtocol(t *testing.T) {
	for _, more := range [][]string{nil, {"--prefork", "2"}} {
		if more != nil && runtime.GOOS != "linux" {
			continue
		}
		log := t.TempDir() + "/log"
		p := start(t, append(more, "--proxy-protocol", "require", "--proxy-trusted", "127.0.0.0/8,::1", "--access-log", log)...)
		if got := p.askBehind(t, proxyLine); got != 200 {
			t.Errorf("%q: %d behind a proxy", more, got)
		}
		if got := p.askBehind(t, ""); got != 0 {
			t.Errorf("%q: %d without a header", more, got)
		}
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			text, _ := os.ReadFile(log)
			if strings.HasPrefix(string(text), "192.0.2.1 - ") && strings.Count(string(text), "\n") == 1 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%q: the access log has %q", more, text)
			}
		}
	}
}

func TestServeProxyFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--proxy-protocol require":                         "needs --proxy-trusted",
		"--proxy-trusted 10.0.0.0/8":                       "needs --proxy-protocol",
		"--proxy-protocol on --proxy-trusted 10.0.0.0/8":   "off, accept or require",
		"--proxy-protocol accept --proxy-trusted 10.0.0.0": "",
		"--proxy-protocol accept --proxy-trusted nowhere":  "not \"nowhere\"",
	} {
		if want == "" {
			p := start(t, strings.Fields(args)...)
			if got := p.askBehind(t, ""); got != 200 {
				t.Errorf("%s: %d", args, got)
			}
			continue
		}
		out, err := limited(t, binary, append([]string{"serve", "--addr", "127.0.0.1:0"}, strings.Fields(args)...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", args, err, out)
		}
	}
}

// 10,000 connections that send nothing, or half of a header, take little memory and end in time.
func TestServeProxySilent(t *testing.T) {
	const count, most = 10_000, 8 << 20
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("10,000 connections")
	}
	const patience = 4 * time.Second
	p := start(t, "--engine", "epoll", "--read-timeout", fmt.Sprint(patience), "--proxy-protocol", "require", "--proxy-trusted", "127.0.0.0/8")
	p.askBehind(t, proxyLine)
	before := p.resident(t)
	var all []net.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	for i := range count {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 81, byte(i>>8), byte(i))}}
		c, err := d.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		all = append(all, c)
		if i%2 == 1 {
			_, _ = io.WriteString(c, proxyLine[:20])
		}
	}
	grown := p.resident(t) - before
	t.Logf("%d connections without a header: %d KiB more, %d bytes each", count, grown>>10, grown/count)
	if grown > most {
		t.Errorf("that is more than %d bytes", most)
	}
	if got := p.askBehind(t, proxyLine); got != 200 {
		t.Errorf("a client behind a proxy gets %d meanwhile", got)
	}
	for i, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if n, err := c.Read(make([]byte, 1)); n > 0 || os.IsTimeout(err) {
			t.Fatalf("connection %d is not closed: %d, %v", i, n, err)
		}
	}
}

// resident returns the memory of the process.
func (p *process) resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	size, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return size << 10
}
