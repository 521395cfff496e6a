package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/sluicehttp/sluice"
	"golang.org/x/term"
)

// resumeSuffix is that of the file which has the ETag of an incomplete one.
const resumeSuffix = ".sluice-etag"

// partialFile is what --continue-at goes on with.
type partialFile struct {
	size int64
	etag string // of the version that it is a part of; "": unknown
}

// findPartial returns what there is of a file, nil if there is nothing.
func findPartial(name string) (*partialFile, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("--continue-at: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("--continue-at: %s is no regular file", name)
	case info.Size() == 0:
		return nil, nil
	}
	etag, err := os.ReadFile(name + resumeSuffix)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("--continue-at: %w", err)
	}
	return &partialFile{size: info.Size(), etag: strings.TrimSpace(string(etag))}, nil
}

// ask has a request ask for the rest, if it is of the same version (RFC 9110
// section 13.1.5).
func (p *partialFile) ask(h *sluice.RequestHeader) {
	h.Set("Range", fmt.Sprintf("bytes=%d-", p.size))
	if p.etag != "" {
		h.Set("If-Range", p.etag)
	}
}

// check tells from a response where the file goes on. isComplete: there is
// nothing more.
func (p *partialFile) check(resp *sluice.Response) (offset int64, isComplete bool, err error) {
	status := resp.StatusCode()
	unit, of, _ := strings.Cut(string(resp.Header.Peek("Content-Range")), " ")
	span, total, _ := strings.Cut(of, "/")
	first, _, _ := strings.Cut(span, "-")
	etag := string(resp.Header.Peek("ETag"))
	switch {
	case status == 200:
		return 0, false, nil
	case status == 206 && p.etag != "" && etag != "" && etag != p.etag:
		return 0, false, errors.New("the rest that the server sends is of another version")
	case status == 206 && (unit != "bytes" || first != strconv.FormatInt(p.size, 10)):
		return 0, false, fmt.Errorf("the server sends %q instead of what is missing", of)
	case status == 206:
		return p.size, false, nil
	case status == 416 && total == strconv.FormatInt(p.size, 10):
		return 0, true, nil
	}
	return 0, false, statusError(status)
}

// deliver writes the response to where it belongs. It returns the size of the
// body, as it was written.
func (g *getter) deliver(resp *sluice.Response) (n int64, err error) {
	defer resp.CloseBodyStream()
	offset := int64(0)
	if g.resume != nil {
		var isComplete bool
		if offset, isComplete, err = g.resume.check(resp); isComplete {
			g.tell("%s is complete already", g.o.output)
			return 0, removeIfThere(g.o.output + resumeSuffix)
		}
		if err != nil {
			return 0, fmt.Errorf("%w; %s is as it was", err, g.o.output)
		}
		if offset == 0 {
			g.tell("the server sends all of %s: it has another version, or no ranges", g.o.output)
		}
	}
	if status := resp.StatusCode(); g.o.fail && status >= 400 {
		return 0, statusError(status)
	}
	body, err := g.body(resp)
	if err != nil {
		return 0, err
	}
	if g.o.output == "" || g.o.output == stdoutName {
		return g.write(os.Stdout, resp, body)
	}
	return g.toFile(resp, body, offset)
}

// tell says something that is no error.
func (g *getter) tell(format string, args ...any) {
	if !g.o.silent {
		fmt.Fprintf(os.Stderr, "sluice: "+format+"\n", args...)
	}
}

// body returns the body, decoded if that is wanted.
func (g *getter) body(resp *sluice.Response) (io.Reader, error) {
	if !resp.IsBodyStream() {
		return strings.NewReader(""), nil // streams are what StreamResponseBody makes of all others
	}
	body := reader{resp.BodyStream(), g.phases}
	if !g.o.compressed {
		return body, nil
	}
	return decode(body, string(resp.Header.ContentEncoding()))
}

// write writes head and body, as far as they are wanted.
func (g *getter) write(w io.Writer, resp *sluice.Response, body io.Reader) (int64, error) {
	if g.o.include || g.o.head {
		if _, err := w.Write(appendHead(nil, resp)); err != nil {
			return 0, err
		}
	}
	return io.Copy(w, body)
}

// toFile writes the response to a file, from offset on. What has come stays
// there if something fails.
func (g *getter) toFile(resp *sluice.Response, body io.Reader, offset int64) (int64, error) {
	name := g.o.output
	flags := os.O_WRONLY | os.O_CREATE
	if offset == 0 {
		flags |= os.O_TRUNC
	}
	file, err := os.OpenFile(name, flags, 0o666)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil && offset > 0 {
		return 0, err
	}
	bar := g.progressBar(resp, offset)
	n, err := g.write(io.MultiWriter(file, bar), resp, body)
	bar.end(err == nil)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	info, statErr := os.Stat(name)
	if statErr != nil || !info.Mode().IsRegular() {
		return n, err // /dev/null and its like keep nothing
	}
	if err == nil {
		return n, removeIfThere(name + resumeSuffix)
	}
	return n, g.keepPartial(resp, info.Size(), err)
}

// keepPartial notes what an incomplete file is a part of, and adds to err how to
// go on.
func (g *getter) keepPartial(resp *sluice.Response, size int64, err error) error {
	name := g.o.output
	status, etag := resp.StatusCode(), string(resp.Header.Peek("ETag"))
	canGoOn := g.o.method == "GET" && !g.o.compressed && !g.o.include && g.o.byteRange == "" && (status == 200 || status == 206)
	if !canGoOn {
		return fmt.Errorf("%w; %s has only a part of the response", err, name)
	}
	// A weak ETag does not promise the same bytes.
	if strings.HasPrefix(etag, `"`) {
		if noteErr := os.WriteFile(name+resumeSuffix, []byte(etag+"\n"), 0o666); noteErr != nil {
			return errors.Join(err, noteErr)
		}
	} else if noteErr := removeIfThere(name + resumeSuffix); noteErr != nil {
		return errors.Join(err, noteErr)
	}
	return fmt.Errorf("%w; %s has the first %d bytes, --continue-at - goes on with them", err, name, size)
}

func removeIfThere(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// bar shows how far a download is; nil: it does not.
type bar struct{ *progressbar.ProgressBar }

// progressBar returns a bar for a file if one is wanted.
func (g *getter) progressBar(resp *sluice.Response, offset int64) bar {
	isWanted := g.o.progress || term.IsTerminal(int(os.Stderr.Fd()))
	if g.o.silent || !isWanted || !resp.IsBodyStream() {
		return bar{}
	}
	total := int64(-1)
	if length := resp.Header.ContentLength(); length >= 0 && !g.o.compressed {
		total = offset + int64(length)
	}
	b := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetDescription(filepath.Base(g.o.output)),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionSetWidth(24),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(true),
	)
	_ = b.Set64(offset) // drawing is no reason to fail
	return bar{b}
}

// Write implements io.Writer.
func (b bar) Write(p []byte) (int, error) {
	if b.ProgressBar != nil {
		_ = b.Add(len(p)) // see above
	}
	return len(p), nil
}

// end leaves the bar as it is, and begins another line.
func (b bar) end(isComplete bool) {
	if b.ProgressBar == nil {
		return
	}
	if isComplete {
		_ = b.Finish()
	} else {
		_ = b.Exit()
	}
	fmt.Fprintln(os.Stderr)
}
