package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sluicehttp/sluice"
)

// dataPart is what one --data is about.
type dataPart struct {
	text   string
	file   string // "-" is stdin
	isFile bool
}

// dataFlag collects --data and --data-raw in their order.
type dataFlag struct {
	parts      *[]dataPart
	readsFiles bool
}

// Set implements pflag.Value.
func (d *dataFlag) Set(text string) error {
	part := dataPart{text: text}
	if name, ok := strings.CutPrefix(text, "@"); ok && d.readsFiles {
		if name == "" {
			return errors.New("there is no name behind @")
		}
		part = dataPart{file: name, isFile: true}
	}
	*d.parts = append(*d.parts, part)
	return nil
}

// String implements pflag.Value.
func (d *dataFlag) String() string { return "" }

// Type implements pflag.Value.
func (d *dataFlag) Type() string { return "data" }

func (p dataPart) isStdin() bool { return p.isFile && p.file == stdinName }

// stdinName is the file that is stdin.
const stdinName = "-"

func readsStdin(parts []dataPart) bool {
	for _, part := range parts {
		if part.isStdin() {
			return true
		}
	}
	return false
}

// checkData finds what cannot be sent, before anything is.
func checkData(parts []dataPart) error {
	stdins := 0
	for _, part := range parts {
		if part.isStdin() {
			if stdins++; stdins > 1 {
				return errors.New("--data @- reads stdin, and can do so once only")
			}
			continue
		}
		if !part.isFile {
			continue
		}
		// Opening a pipe might wait, or take from it.
		if info, err := os.Stat(part.file); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		file, _, err := openData(part.file)
		if err != nil {
			return err
		}
		file.Close()
	}
	return nil
}

// openData opens a file to send. Its size is -1 if it has none.
func openData(name string) (file *os.File, size int64, err error) {
	if file, err = os.Open(name); err != nil {
		return nil, 0, fmt.Errorf("--data: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a folder", name)
	case info.Mode().IsRegular():
		return file, info.Size(), nil
	default:
		return file, -1, nil
	}
	file.Close()
	return nil, 0, fmt.Errorf("--data: %w", err)
}

// setBody gives a request the data: as it is if that is text, else as a stream,
// with its length if that is known. Each call opens the files anew.
func setBody(ctx context.Context, req *sluice.Request, parts []dataPart) error {
	body := &dataStream{}
	size := int64(max(len(parts)-1, 0)) // of the &
	var text strings.Builder
	for i, part := range parts {
		if i > 0 {
			text.WriteString("&")
			body.add(strings.NewReader("&"))
		}
		switch {
		case part.isStdin():
			size = -1
			body.add(stdinUntil(ctx))
		case part.isFile:
			file, fileSize, err := openData(part.file)
			if err != nil {
				return errors.Join(err, body.Close())
			}
			size = addSizes(size, fileSize)
			body.add(file)
		default:
			size = addSizes(size, int64(len(part.text)))
			text.WriteString(part.text)
			body.add(strings.NewReader(part.text))
		}
	}
	if !body.isStream() {
		req.SetBodyString(text.String())
		return nil
	}
	body.Reader = io.MultiReader(body.parts...)
	req.SetBodyStream(body, int(size))
	return nil
}

// addSizes adds sizes, of which -1 is unknown.
func addSizes(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// dataStream is a body made of several parts. The client closes it.
type dataStream struct {
	io.Reader
	parts   []io.Reader
	closers []io.Closer
}

func (s *dataStream) add(r io.Reader) {
	s.parts = append(s.parts, r)
	if c, ok := r.(io.Closer); ok {
		s.closers = append(s.closers, c)
	}
}

func (s *dataStream) isStream() bool { return len(s.closers) > 0 }

// Close implements io.Closer.
func (s *dataStream) Close() (err error) {
	for _, c := range s.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// stdinUntil returns a reader of stdin that ends with ctx: a read of a terminal
// cannot be interrupted otherwise.
func stdinUntil(ctx context.Context) io.ReadCloser {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(w, os.Stdin)
		w.CloseWithError(err)
	}()
	return r
}
