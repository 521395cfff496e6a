package compress

import (
	"bytes"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
)

// encode encodes a message. The result may be changed by the next call.
type encode func(message []byte) ([]byte, error)

// The contenders. Ratios are to the first one.
const (
	direct = iota
	ourFunction
	ourHandler
	fasthttpFunction
	fasthttpHandler
	contenderCount
)

var contenderNames = [contenderCount]string{"direct", "sluice_function", "sluice_handler", "fasthttp_function", "fasthttp_handler"}

// A coding is a content coding with a level.
type coding struct {
	name  string // as in Content-Encoding
	level int
	// direct returns how a careful user encodes, with one compressor for all
	// messages.
	direct         func(level int) (encode, error)
	ours, fasthttp appendLevel
	decode         func(dst, src []byte) ([]byte, error)
}

// appendLevel is the type of the functions of ours and of fasthttp.
type appendLevel func(dst, src []byte, level int) []byte

// codings returns what is compared: the levels are defaults, and gzip's fastest.
func codings() []coding {
	return []coding{
		gzipAt(sluice.CompressDefaultCompression),
		gzipAt(sluice.CompressBestSpeed),
		deflateAt(sluice.CompressDefaultCompression),
		brotliAt(sluice.CompressBrotliDefaultCompression),
		zstdAt(sluice.CompressZstdDefault),
	}
}

// allLevels returns the codings with the levels that are worth a look. Those of
// deflate cost what those of gzip do.
func allLevels() (all []coding) {
	for _, level := range []int{sluice.CompressHuffmanOnly, 1, 2, 3, 4, 5, 6, 7, 8, 9} {
		all = append(all, gzipAt(level))
	}
	for level := range sluice.CompressBrotliBestCompression + 1 {
		all = append(all, brotliAt(level))
	}
	for level := sluice.CompressZstdBestSpeed; level <= sluice.CompressZstdBestCompression; level++ {
		all = append(all, zstdAt(level))
	}
	return all
}

// someLevels returns the codings at the levels among which the defaults of handlers
// are.
func someLevels() (some []coding) {
	for level := 1; level <= 6; level++ {
		some = append(some, gzipAt(level))
	}
	for _, level := range []int{3, 6} {
		some = append(some, deflateAt(level))
	}
	for _, level := range []int{1, 3, 4, 5} {
		some = append(some, brotliAt(level))
	}
	for level := sluice.CompressZstdBestSpeed; level <= 3; level++ {
		some = append(some, zstdAt(level))
	}
	return some
}

func deflateAt(level int) coding {
	return coding{"deflate", level, directDeflate, sluice.AppendDeflateBytesLevel, fasthttp.AppendDeflateBytesLevel, fasthttp.AppendInflateBytes}
}

func gzipAt(level int) coding {
	return coding{"gzip", level, directGzip, sluice.AppendGzipBytesLevel, fasthttp.AppendGzipBytesLevel, fasthttp.AppendGunzipBytes}
}

func brotliAt(level int) coding {
	return coding{"br", level, directBrotli, sluice.AppendBrotliBytesLevel, fasthttp.AppendBrotliBytesLevel, fasthttp.AppendUnbrotliBytes}
}

func zstdAt(level int) coding {
	return coding{"zstd", level, directZstd, sluice.AppendZstdBytesLevel, fasthttp.AppendZstdBytesLevel, fasthttp.AppendUnzstdBytes}
}

// encoders returns the contenders.
func (c coding) encoders() (all [contenderCount]encode, err error) {
	if all[direct], err = c.direct(c.level); err != nil {
		return all, err
	}
	all[ourFunction] = appending(c.ours, c.level)
	all[ourHandler] = c.sluiceHandler()
	all[fasthttpFunction] = appending(c.fasthttp, c.level)
	all[fasthttpHandler] = c.fasthttpHandler()
	return all, nil
}

func appending(f appendLevel, level int) encode {
	var out []byte
	return func(message []byte) ([]byte, error) {
		out = f(out[:0], message, level)
		return out, nil
	}
}

const jsonType = "application/json"

// sluiceHandler answers a request, but for reading it and writing the answer: a
// handler that writes the message, within the one that compresses.
func (c coding) sluiceHandler() encode {
	var message []byte
	handler := sluice.CompressHandlerBrotliLevel(func(ctx *sluice.RequestCtx) {
		ctx.SetContentType(jsonType)
		ctx.Write(message)
	}, c.level, c.level)
	ctx := new(sluice.RequestCtx)
	ctx.Init(new(sluice.Request), nil, nil)
	ctx.Request.Header.Set(sluice.HeaderAcceptEncoding, c.name)
	return func(m []byte) ([]byte, error) {
		message = m
		ctx.Response.Reset()
		handler(ctx)
		return encodedBody(ctx.Response.Header.ContentEncoding(), ctx.Response.Body(), c.name)
	}
}

// fasthttpHandler does the same with fasthttp.
func (c coding) fasthttpHandler() encode {
	var message []byte
	handler := fasthttp.CompressHandlerBrotliLevel(func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType(jsonType)
		ctx.Write(message)
	}, c.level, c.level)
	ctx := new(fasthttp.RequestCtx)
	ctx.Init(new(fasthttp.Request), nil, nil)
	ctx.Request.Header.Set(fasthttp.HeaderAcceptEncoding, c.name)
	return func(m []byte) ([]byte, error) {
		message = m
		ctx.Response.Reset()
		handler(ctx)
		return encodedBody(ctx.Response.Header.ContentEncoding(), ctx.Response.Body(), c.name)
	}
}

func encodedBody(encoding, body []byte, want string) ([]byte, error) {
	if string(encoding) != want {
		return nil, fmt.Errorf("Content-Encoding is %q, want %q", encoding, want)
	}
	return body, nil
}

// resetter is what the compressors but zstd have in common.
type resetter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

func resetting(z resetter, err error) (encode, error) {
	var out bytes.Buffer
	return func(message []byte) ([]byte, error) {
		out.Reset()
		z.Reset(&out)
		if _, err := z.Write(message); err != nil {
			return nil, err
		}
		err := z.Close()
		return out.Bytes(), err
	}, err
}

func directGzip(level int) (encode, error)    { return resetting(gzip.NewWriterLevel(nil, level)) }
func directDeflate(level int) (encode, error) { return resetting(zlib.NewWriterLevel(nil, level)) }

func directBrotli(level int) (encode, error) {
	return resetting(brotli.NewWriterLevel(nil, level), nil)
}

func directZstd(level int) (encode, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevel(level)), zstd.WithEncoderConcurrency(1))
	var out []byte
	return func(message []byte) ([]byte, error) {
		out = z.EncodeAll(message, out[:0])
		return out, nil
	}, err
}
