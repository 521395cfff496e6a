package files

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/conditional"
)

// Validators returns what conditions of requests are compared with: the
// modification time, if f has one, and the ETag if hasETag.
func (f *File) Validators(hasETag bool) conditional.Validators {
	var v conditional.Validators
	if hasETag {
		v.ETag = ascii.Bytes(f.etag)
	}
	if len(f.lastModified) > 0 {
		v.Modified, v.HasModified = f.modified.Unix(), true
		if v.Modified > clock.Coarse().Unix() {
			v.Modified = min(v.Modified, time.Now().Unix()) // RFC 9110 section 8.8.2.1
		}
	}
	return v
}

// Ranges is the body of an answer with several spans of a file (RFC 9110 section
// 15.3.7.2).
type Ranges struct {
	// Boundary is that of the media type multipart/byteranges.
	Boundary string
	// Length is the number of bytes.
	Length int64
	// Content is the body of a file in memory, which is nil otherwise. Read then
	// returns the body.
	Content []byte

	body  io.Reader
	parts []*Part // to be closed
}

// Ranges returns the body with spans, which ParseRange has checked. The caller
// closes it.
func (f *File) Ranges(spans []conditional.Span) (*Ranges, error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	contentType := []byte(f.contentType)
	r := &Ranges{Boundary: hex.EncodeToString(random[:])}
	r.Length = conditional.PartsLength(r.Boundary, contentType, spans, f.size)
	if f.data != nil {
		// Small files only; all spans together are no longer than the file.
		r.Content = make([]byte, 0, r.Length)
		for i, span := range spans {
			r.Content = conditional.AppendPartHead(r.Content, r.Boundary, i == 0, contentType, span, f.size)
			r.Content = append(r.Content, f.data[span.Offset:span.Offset+span.Length]...)
		}
		r.Content = conditional.AppendPartsEnd(r.Content, r.Boundary)
		return r, nil
	}
	sequence := make([]io.Reader, 0, 2*len(spans)+1)
	for i, span := range spans {
		head := conditional.AppendPartHead(nil, r.Boundary, i == 0, contentType, span, f.size)
		part, err := f.Part(span.Offset, span.Length)
		if err != nil {
			_ = r.Close()
			return nil, err
		}
		r.parts = append(r.parts, part)
		sequence = append(sequence, bytes.NewReader(head), part)
	}
	r.body = io.MultiReader(append(sequence, bytes.NewReader(conditional.AppendPartsEnd(nil, r.Boundary)))...)
	return r, nil
}

// Read implements io.Reader.
func (r *Ranges) Read(p []byte) (int, error) { return r.body.Read(p) }

// Close implements io.Closer.
func (r *Ranges) Close() error {
	for _, part := range r.parts {
		_ = part.Close() // a file that was only read: the error does not matter
	}
	r.parts = nil
	return nil
}
