package files

import (
	"io"
	"mime"
	"mime/multipart"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/conditional"
)

// TestRanges: the parts of a file in memory and of a larger one are those that
// package mime reads, and the length is right.
func TestRanges(t *testing.T) {
	for name, data := range map[string][]byte{"small.txt": text("small", 1000), "large.txt": text("large", 200_000)} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, name), data)
		f := mustOpen(t, New(Options{Root: dir}), name, Identity)
		defer f.Release()
		spans := []conditional.Span{{Offset: 0, Length: 10}, {Offset: 500, Length: 500}, {Offset: f.Size() - 1, Length: 1}}
		r, err := f.Ranges(spans)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		body := string(r.Content)
		if _, inMemory := f.Bytes(); inMemory != (r.Content != nil) {
			t.Fatalf("%s: in memory: %v", name, inMemory)
		}
		if r.Content == nil {
			all, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			body = string(all)
		}
		if int64(len(body)) != r.Length {
			t.Errorf("%s: %d bytes, announced %d", name, len(body), r.Length)
		}
		parts := multipart.NewReader(strings.NewReader(body), r.Boundary)
		for _, span := range spans {
			part, err := parts.NextRawPart()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(part)
			if want := data[span.Offset : span.Offset+span.Length]; err != nil || string(got) != string(want) {
				t.Errorf("%s, %v: %q, %v", name, span, got, err)
			}
			if mediaType, _, err := mime.ParseMediaType(part.Header.Get("Content-Type")); err != nil || mediaType != "text/plain" {
				t.Errorf("%s: %q, %v", name, mediaType, err)
			}
		}
		if _, err := parts.NextRawPart(); err != io.EOF {
			t.Errorf("%s: after the last part: %v", name, err)
		}
	}
}

// If a part cannot be opened, those before it are closed.
func TestRangesThatCannotBeOpened(t *testing.T) {
	good := oddFile{size: 2000, data: text("large", 2000)}
	o := of(good)
	f := mustOpen(t, New(Options{FS: o, SmallFile: 1000}), "file", Identity)
	o.versions = append(slices.Repeat([]oddFile{good}, o.opened+2), oddFile{openErr: errOdd})
	r, err := f.Ranges([]conditional.Span{{Offset: 0, Length: 10}, {Offset: 20, Length: 10}, {Offset: 40, Length: 10}})
	if r != nil || err == nil || o.opened != len(o.versions) {
		t.Errorf("%v, %v after %d openings", r, err, o.opened)
	}
	f.Release()
	if o.closed != o.opened-1 {
		t.Errorf("%d of %d are closed", o.closed, o.opened-1)
	}
}

// TestValidators: a time in the future is no validator of it (RFC 9110 section
// 8.8.2.1).
func TestValidators(t *testing.T) {
	dir := t.TempDir()
	writeAt(t, filepath.Join(dir, "old"), nil, longAgo())
	writeAt(t, filepath.Join(dir, "new"), nil, time.Now().Add(time.Hour))
	s := New(Options{Root: dir})
	old, future := mustOpen(t, s, "old", Identity), mustOpen(t, s, "new", Identity)
	defer old.Release()
	defer future.Release()
	if v := old.Validators(true); !v.HasModified || v.Modified != longAgo().Unix() || string(v.ETag) != old.etag {
		t.Errorf("%+v", v)
	}
	if v := future.Validators(false); !v.HasModified || v.Modified > time.Now().Unix() || v.ETag != nil {
		t.Errorf("%+v", v)
	}
}
