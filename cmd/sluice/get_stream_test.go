package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
)

// peakMemory returns the most that a process has had, in bytes.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// maxMemory is what a transfer of any size may take: Go's runtime, TLS and the
// rest of the program are most of it.
const maxMemory = 32 << 20

// zeros is a reader of n zeros, and then calls atEnd.
type zeros struct {
	left  int
	atEnd func()
}

// Read implements io.Reader.
func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		z.atEnd()
		return 0, io.EOF
	}
	n := min(len(p), z.left)
	clear(p[:n])
	z.left -= n
	return n, nil
}

// TestGetLargeDownload: memory does not grow with the body. It is looked at
// while the end of the body is held back.
func TestGetLargeDownload(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	const size = 200 << 20
	for _, coding := range []string{"", "gzip"} {
		t.Run("coding "+coding, func(t *testing.T) {
			sent, goOn := make(chan bool, 1), make(chan bool)
			release := sync.OnceFunc(func() { close(goOn) })
			defer release() // Shutdown waits for the handler
			url := listenFor(t, func(ctx *sluice.RequestCtx) {
				ctx.SetBodyStream(&zeros{left: size, atEnd: func() { sent <- true; <-goOn }}, -1)
			})
			if coding != "" {
				url = listenFor(t, sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
					ctx.SetContentType("text/plain")
					ctx.SetBodyStream(&zeros{left: size, atEnd: func() { sent <- true; <-goOn }}, -1)
				}))
			}
			name := filepath.Join(t.TempDir(), "large")
			cmd := getCommand(t, "--compressed", "-o", name, url)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-sent
			// What was sent is still on its way: half of it is enough to know.
			eventually(t, "half of the file", func() bool { return fileSize(name) > size/2 })
			peak := peakMemory(t, cmd.Process.Pid)
			release()
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			if got := fileSize(name); got != size || peak > maxMemory {
				t.Errorf("%d bytes, and %d KiB of memory", got, peak>>10)
			}
			t.Logf("%d KiB of memory", peak>>10)
		})
	}
}

func fileSize(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return -1
	}
	return info.Size()
}

// TestGetUpload: stdin is sent while it comes, in constant memory.
func TestGetUpload(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	const size = 100 << 20
	first, all, goOn := make(chan string, 1), make(chan int64, 1), make(chan bool)
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	url := listenFor(t, func(ctx *sluice.RequestCtx) {
		body := bufio.NewReader(ctx.RequestBodyStream())
		line, _ := body.ReadString('\n')
		first <- line
		n, _ := io.Copy(io.Discard, body)
		all <- n
		<-goOn
		ctx.WriteString("stored")
	})
	cmd := getCommand(t, "-d", "@-", url)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, "one line\n")
	if line := <-first; line != "one line\n" {
		t.Fatalf("the server got %q", line)
	}
	if _, err := io.Copy(stdin, &zeros{left: size, atEnd: func() {}}); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	if n := <-all; n != size {
		t.Errorf("the server got %d bytes", n)
	}
	peak := peakMemory(t, cmd.Process.Pid)
	release()
	if err := cmd.Wait(); err != nil || stdout.String() != "stored" {
		t.Errorf("%v: %s", err, stdout.String())
	}
	if peak > maxMemory {
		t.Errorf("%d KiB of memory", peak>>10)
	}
}

// TestGetInterruptedStdin: Ctrl-C ends a request that waits for its own body.
func TestGetInterruptedStdin(t *testing.T) {
	begun := make(chan bool, 1)
	url := listenFor(t, func(ctx *sluice.RequestCtx) {
		body := ctx.RequestBodyStream()
		io.ReadFull(body, make([]byte, 1))
		begun <- true
		io.Copy(io.Discard, body)
	})
	cmd := getCommand(t, "-d", "@-", url)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, "x")
	<-begun
	cmd.Process.Signal(os.Interrupt)
	// The interruption also ends the body: what the client was at by then may be
	// waiting for the answer.
	if err := cmd.Wait(); err == nil || !strings.HasPrefix(stderr.String(), "sluice: ") || !strings.HasSuffix(stderr.String(), ": interrupted\n") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// TestGetCompressed: all codings are decoded, and several of them.
func TestGetCompressed(t *testing.T) {
	const text = "some text, some text, some text"
	encoded := map[string][]byte{
		"gzip":       sluice.AppendGzipBytes(nil, []byte(text)),
		"br":         sluice.AppendBrotliBytes(nil, []byte(text)),
		"zstd":       sluice.AppendZstdBytes(nil, []byte(text)),
		"deflate":    sluice.AppendDeflateBytes(nil, []byte(text)),
		"identity":   []byte(text),
		"gzip, br":   sluice.AppendBrotliBytes(nil, sluice.AppendGzipBytes(nil, []byte(text))),
		"secret":     []byte(text),
		"gzip, gzip": sluice.AppendGzipBytes(nil, []byte(text)), // it is not
	}
	url := listenFor(t, func(ctx *sluice.RequestCtx) {
		coding := string(ctx.QueryArgs().Peek("coding"))
		ctx.Response.Header.Set("Content-Encoding", coding)
		ctx.Write(encoded[coding])
	})
	for coding := range encoded {
		got := get(t, "--compressed", url+"?coding="+strings.ReplaceAll(coding, " ", "%20"))
		fails := coding == "secret" || coding == "gzip, gzip"
		if fails != (got.status == 1 && strings.Contains(got.stderr, "sluice: decoding the body: ")) || fails != (got.stdout != text) {
			t.Errorf("%s: exit status %d, %q, %s", coding, got.status, got.stdout, got.stderr)
		}
		if got := get(t, url+"?coding="+strings.ReplaceAll(coding, " ", "%20")); got.stdout != string(encoded[coding]) {
			t.Errorf("%s, not asked for: %q", coding, got.stdout)
		}
	}
	if got := get(t, "--compressed", "-I", url+"?coding=gzip"); got.status != 0 || got.stderr != "" {
		t.Errorf("head: exit status %d, %s", got.status, got.stderr)
	}
}

// TestGetTLS: certificates are verified unless --insecure says otherwise.
func TestGetTLS(t *testing.T) {
	cert, key := writePair(t, t.TempDir(), "localhost")
	p := start(t, "--tls-cert", cert, "--tls-key", key)
	url := strings.Replace(p.url, "127.0.0.1", "localhost", 1) + "/plaintext"
	for _, c := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{url}, 1, "sluice: setting up TLS: "},
		{[]string{"-k", url}, 0, ""},
		{[]string{"--cacert", cert, url}, 0, ""},
		{[]string{"--cacert", cert, "--trace", url}, 0, "\n  tls  "},
		{[]string{"--cacert", cert, p.url}, 1, "sluice: setting up TLS: "}, // another name
		{[]string{"--cacert", key, url}, 1, "there is no certificate in"},
	} {
		got := get(t, c.args...)
		if got.status != c.status || !strings.Contains(got.stderr, c.stderr) || (got.stdout == "Hello, World!") != (c.status == 0) {
			t.Errorf("%v: exit status %d, %s%s", c.args, got.status, got.stdout, got.stderr)
		}
	}
}

// TestGetProxy: the connection goes through the proxy, also to this machine.
func TestGetProxy(t *testing.T) {
	url := listenFor(t, mirror)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	asked := make(chan string, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		line, _ := bufio.NewReader(conn).ReadString('\n')
		asked <- line
		fields := strings.Fields(line)
		target, err := net.Dial("tcp", fields[1])
		if err != nil {
			return
		}
		defer target.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go io.Copy(target, conn)
		io.Copy(conn, target)
	}()
	got := get(t, "--proxy", "http://"+ln.Addr().String(), url+"/x")
	if got.status != 0 || !strings.HasPrefix(got.stdout, "GET /x ") {
		t.Errorf("exit status %d: %s", got.status, got.stderr)
	}
	if line := <-asked; !strings.HasPrefix(line, "CONNECT "+strings.TrimPrefix(url, "http://")) {
		t.Errorf("the proxy was asked for %q", line)
	}
	if got := get(t, "--proxy", "http://a:b", url); got.status != 1 || !strings.Contains(got.stderr, "connecting: ") {
		t.Errorf("exit status %d: %s", got.status, got.stderr)
	}
}
