package floor

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/process"
)

func TestArguments(t *testing.T) {
	got, err := Arguments(Options{Addr: "127.0.0.1:1234", Processes: 2, Close: true, Response: "file"})
	if err != nil || !slices.Equal(got, []string{"1234", "2", "1", "file"}) {
		t.Errorf("arguments %q, %v", got, err)
	}
	if _, err := Arguments(Options{Addr: "127.0.0.1"}); err == nil {
		t.Error("no error without a port")
	}
}

// start builds and starts the program, or skips the test.
func start(t *testing.T, response string, closes bool) (addr string) {
	if runtime.GOOS != "linux" {
		t.Skip("epoll is Linux's")
	}
	folder := t.TempDir()
	program, err := Build(t.Context(), folder)
	if errors.Is(err, process.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "response")
	if err := os.WriteFile(file, []byte(response), 0o600); err != nil {
		t.Fatal(err)
	}
	if addr, err = process.FreeAddress(t.Context()); err != nil {
		t.Fatal(err)
	}
	arguments, err := Arguments(Options{Addr: addr, Processes: 2, Close: closes, Response: file})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	return addr
}

// dial waits for the program to listen.
func dial(t *testing.T, addr string) net.Conn {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp4", addr)
		if err == nil {
			t.Cleanup(func() { c.Close() })
			if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			return c
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal(err)
		}
	}
}

// Heads are counted wherever they are cut, and large responses come whole.
func TestResponses(t *testing.T) {
	response := "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("0123456789", 10_000)
	c := dial(t, start(t, response, false))
	const head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for cut := range len(head) {
		for _, piece := range []string{head[:cut], head[cut:] + head} {
			if _, err := io.WriteString(c, piece); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, 2*len(response))
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if string(got) != response+response {
			t.Fatalf("cut at %d: another response", cut)
		}
	}
}

func TestCloses(t *testing.T) {
	const response = "HTTP/1.1 200 OK\r\n\r\n"
	c := dial(t, start(t, response, true))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(bufio.NewReader(c))
	if err != nil || string(got) != response {
		t.Errorf("%q, %v", got, err)
	}
}
