package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// zstdWindow is the largest that the content coding allows (RFC 9659).
const zstdWindow = 8 << 20

// decode returns a reader of what a Content-Encoding made of body. It decodes as
// it reads, so the size does not matter.
func decode(body io.Reader, encoding string) (io.Reader, error) {
	codings := strings.Split(encoding, ",")
	for i := len(codings) - 1; i >= 0; i-- {
		coding := strings.ToLower(strings.TrimSpace(codings[i]))
		if coding == "" || coding == "identity" {
			continue
		}
		source := bufio.NewReader(body)
		if _, err := source.Peek(1); err == io.EOF {
			return source, nil // nothing, as for HEAD
		}
		var err error
		if body, err = decodeOne(source, coding); err != nil {
			return nil, fmt.Errorf("decoding the body: %w", err)
		}
	}
	return body, nil
}

func decodeOne(source *bufio.Reader, coding string) (io.Reader, error) {
	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewReader(source)
	case "br":
		return brotli.NewReader(source), nil
	case "zstd":
		decoder, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
		return decoder, nil
	case "deflate":
		// Some send it without the frame that RFC 9110 section 8.4.1.2 asks for.
		if head, err := source.Peek(2); err == nil && isZlib(head) {
			return zlib.NewReader(source)
		}
		return flate.NewReader(source), nil
	}
	return nil, fmt.Errorf("%q is not known", coding)
}

// isZlib reports whether head is that of RFC 1950.
func isZlib(head []byte) bool {
	return head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0
}
