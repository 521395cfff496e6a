package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// TestGetInterruptedFile: what has come when Ctrl-C ends a download stays.
func TestGetInterruptedFile(t *testing.T) {
	url := listenFor(t, func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.SetContentLength(10)
		ctx.WriteString("half")
		ctx.Flush()
		<-ctx.Done()
	})
	name := filepath.Join(t.TempDir(), "file")
	cmd := getCommand(t, "-o", name, url)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "half of the file", func() bool { return fileSize(name) == 4 })
	cmd.Process.Signal(os.Interrupt)
	err := cmd.Wait()
	says := "sluice: reading the response: interrupted; " + name + " has only a part of the response\n"
	if err == nil || cmd.ProcessState.ExitCode() != 1 || stderr.String() != says {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// TestGetFiles: which files are written.
func TestGetFiles(t *testing.T) {
	url := listenFor(t, mirror)
	cmd := getCommand(t, "-o", "name.txt", url)
	if got := finish(t, cmd); got.status != 0 || got.stdout != "" || got.stderr != "" {
		t.Fatalf("exit status %d: %s", got.status, got.stderr)
	}
	if text, err := os.ReadFile(filepath.Join(cmd.Dir, "name.txt")); err != nil || !bytes.HasPrefix(text, []byte("GET ")) {
		t.Errorf("%q, %v", text, err)
	}
	// Nothing is made, nor emptied, where there is no response.
	name := filepath.Join(t.TempDir(), "file")
	os.WriteFile(name, []byte("before"), 0o600)
	if got := get(t, "-f", "-o", name, url+"?status=404"); got.status != 22 || fileSize(name) != 6 {
		t.Errorf("exit status %d, %d bytes", got.status, fileSize(name))
	}
	if got := get(t, "-m", "5", "-o", name+"2", "http://127.0.0.1:1"); got.status != 1 || fileSize(name+"2") != -1 {
		t.Errorf("exit status %d, %d bytes", got.status, fileSize(name+"2"))
	}
	if got := get(t, "--repeat", "2", "-o", os.DevNull, url); got.status != 0 || got.stderr != "" {
		t.Errorf("exit status %d: %s", got.status, got.stderr)
	}
}

// TestGetCut: a body that is cut off is an error that says so.
func TestGetCut(t *testing.T) {
	url := listenFor(t, func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.SetContentLength(10)
		ctx.WriteString("half")
		ctx.Flush()
		panic(sluice.ErrAbortHandler)
	})
	got := get(t, url)
	if got.status != 1 || got.stdout != "half" || !strings.HasPrefix(got.stderr, "sluice: reading the response: ") {
		t.Errorf("exit status %d, %q: %s", got.status, got.stdout, got.stderr)
	}
	slow := listenFor(t, func(ctx *sluice.RequestCtx) {
		ctx.WriteString("half")
		ctx.Flush()
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	})
	if got := get(t, "-m", "0.3", slow); got.status != 1 || got.stderr != "sluice: reading the response: the 300ms of --max-time are over\n" {
		t.Errorf("exit status %d: %s", got.status, got.stderr)
	}
}
