package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sluicehttp/sluice"
)

// deliver writes the response to where it belongs. It returns the size of the
// body, as it was written.
func (g *getter) deliver(resp *sluice.Response) (n int64, err error) {
	defer resp.CloseBodyStream()
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
	return g.toFile(resp, body)
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

// toFile writes the response to a file. What has come stays there if something
// fails.
func (g *getter) toFile(resp *sluice.Response, body io.Reader) (int64, error) {
	file, err := os.Create(g.o.output)
	if err != nil {
		return 0, err
	}
	n, err := g.write(file, resp, body)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return n, fmt.Errorf("%w; %s has only a part of the response", err, g.o.output)
	}
	return n, nil
}
