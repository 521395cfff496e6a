package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// versions is a server of a file that changes. It sends half of it to those that
// ask for all while isHalf, and then says nothing.
type versions struct {
	etag   atomic.Value // string
	isHalf atomic.Bool
	asked  atomic.Value // string: Range and If-Range of the last request
}

// text is the file of the present version.
func (v *versions) text() []byte {
	return bytes.Repeat([]byte(v.etag.Load().(string)), 100_000)
}

func (v *versions) handle(ctx *sluice.RequestCtx) {
	h := &ctx.Request.Header
	text, etag := v.text(), v.etag.Load().(string)
	wanted, ifRange := string(h.Peek("Range")), string(h.Peek("If-Range"))
	v.asked.Store(wanted + " " + ifRange)
	if etag != "none" {
		ctx.Response.Header.Set("ETag", etag)
	}
	var first int
	if n, _ := fmt.Sscanf(wanted, "bytes=%d-", &first); n == 1 && (ifRange == "" || ifRange == etag) {
		if first >= len(text) {
			ctx.SetStatusCode(416)
			ctx.Response.Header.Set("Content-Range", fmt.Sprintf("bytes */%d", len(text)))
			return
		}
		ctx.SetStatusCode(206)
		ctx.Response.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, len(text)-1, len(text)))
		ctx.Write(text[first:])
		return
	}
	if !v.isHalf.Load() {
		ctx.Write(text)
		return
	}
	ctx.Response.Header.SetContentLength(len(text))
	ctx.Write(text[:len(text)/2])
	ctx.Flush()
	<-ctx.Done()
}

// TestGetResume: a download that Ctrl-C ends goes on where it was, and begins
// anew where the file has changed.
func TestGetResume(t *testing.T) {
	var v versions
	url := listenFor(t, v.handle)
	for _, c := range []struct {
		name         string
		before, then string // ETags
		asks, says   string
	}{
		{"the same", `"one"`, `"one"`, `bytes=250000- "one"`, ""},
		{"another", `"one"`, `"two"`, `bytes=250000- "one"`, "the server sends all of"},
		{"weak", `W/"1"`, `W/"1"`, `bytes=250000- `, ""},
		{"none", "none1", "none1", `bytes=250000- `, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v.etag.Store(c.before)
			v.isHalf.Store(true)
			half := len(v.text()) / 2
			name := filepath.Join(t.TempDir(), "file")
			cmd := getCommand(t, "-o", name, url)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "half of the file", func() bool { return fileSize(name) == int64(half) })
			cmd.Process.Signal(os.Interrupt)
			err := cmd.Wait()
			says := fmt.Sprintf("sluice: reading the response: interrupted; %s has the first %d bytes, --continue-at - goes on with them\n", name, half)
			if err == nil || cmd.ProcessState.ExitCode() != 1 || stderr.String() != says {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			v.etag.Store(c.then)
			v.isHalf.Store(false)
			got := get(t, "-C", "-", "-o", name, "--progress", url)
			text, err := os.ReadFile(name)
			if got.status != 0 || err != nil || !bytes.Equal(text, v.text()) || !strings.Contains(got.stderr, c.says) {
				t.Errorf("exit status %d, %d bytes, %v: %s", got.status, len(text), err, got.stderr)
			}
			if asked := v.asked.Load().(string); asked != strings.Replace(c.asks, "250000", fmt.Sprint(half), 1) {
				t.Errorf("asked for %q", asked)
			}
			if !strings.Contains(got.stderr, "100%") {
				t.Errorf("no progress: %q", got.stderr)
			}
			if _, err := os.Stat(name + resumeSuffix); !os.IsNotExist(err) {
				t.Errorf("the ETag stays: %v", err)
			}
			// There is nothing more.
			if got := get(t, "-C", "-", "-o", name, url); got.status != 0 || !strings.Contains(got.stderr, "is complete already") || fileSize(name) != int64(len(text)) {
				t.Errorf("exit status %d: %s", got.status, got.stderr)
			}
		})
	}
}

// TestGetResumeRefused: what is no continuation leaves the file as it was.
func TestGetResumeRefused(t *testing.T) {
	url := listenFor(t, func(ctx *sluice.RequestCtx) {
		args := ctx.QueryArgs()
		ctx.SetStatusCode(args.GetUintOrZero("status"))
		ctx.Response.Header.SetBytesV("Content-Range", args.Peek("range"))
		ctx.Response.Header.SetBytesV("ETag", args.Peek("etag"))
		ctx.WriteString("something else")
	})
	for query, c := range map[string]struct {
		status int
		says   string
	}{
		"status=404":                           {1, "the server answered 404"},
		"status=206&range=bytes 0-13/14":       {1, "instead of what is missing"},
		"status=206&range=bytes 1-14/99":       {1, "instead of what is missing"},
		"status=206":                           {1, "instead of what is missing"},
		`status=206&range=bytes 4-9/10&etag=x`: {1, "of another version"},
		"status=416&range=bytes */99":          {1, "the server answered 416"},
		"status=404&x=fail":                    {22, "the server answered 404"},
	} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte("part"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name+resumeSuffix, []byte("\"one\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"-C", "-", "-o", name, url + "?" + strings.ReplaceAll(query, " ", "%20")}
		if strings.Contains(query, "fail") {
			args = append(args, "--fail")
		}
		got := get(t, args...)
		text, _ := os.ReadFile(name)
		if got.status != c.status || !strings.Contains(got.stderr, c.says) || !strings.Contains(got.stderr, "is as it was") || string(text) != "part" {
			t.Errorf("%s: exit status %d, %q: %s", query, got.status, text, got.stderr)
		}
	}
}

// TestGetFiles: which files are written.
func TestGetFiles(t *testing.T) {
	url := listenFor(t, mirror)
	cmd := getCommand(t, "-O", url+"/a/..%2Fname.txt?q")
	if got := finish(t, cmd); got.status != 0 || got.stdout != "" {
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
	if _, err := os.Stat(os.DevNull + resumeSuffix); err == nil {
		t.Error("there is an ETag beside " + os.DevNull)
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
