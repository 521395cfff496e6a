package files

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/conditional"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// SiteOptions are the settings of a Site, with those of its Store. Root is the folder
// within FS if both are set.
type SiteOptions struct {
	Options
	Offers     []compress.Offer // the codings for files, the preferred one first
	IndexNames []string
	HasListing bool // folders without an index file are listed
	HasRanges  bool
	HasETags   bool
}

// A Site answers requests with the files of a Store. Its methods may be called
// concurrently.
type Site struct {
	SiteOptions
	look  sync.Once // before the first Answer
	store *Store
	only  []byte // the name of the only file, if the root is a file
}

// NewSite returns a Site. It does not access the file system.
func NewSite(o SiteOptions) *Site {
	s := &Site{SiteOptions: o}
	below := o.Options
	if root := s.rootInFS(); o.FS != nil && root != "" {
		if sub, err := fs.Sub(o.FS, root); err == nil { // always: the name is clean
			below.FS = sub
		}
	}
	s.store = New(below)
	return s
}

func (s *Site) rootInFS() string { return path.Clean("/" + s.Root)[1:] }

// A Request is a request of which a Site reads the head. The Site sets fields and the
// status in the head of the response, and says in the other fields what its content is.
type Request struct {
	Header   *message.RequestHeader
	Response *message.ResponseHeader
	Path     []byte // decoded, as the client knows it

	Form    Form
	Length  int64 // of Stream, of what the answer to GET has, and of the file for ErrRange
	Content []byte
	Stream  io.ReadCloser
}

// A Form is what kind of content the response has.
type Form uint8

const (
	FormNone    Form = iota // 304
	FormHead                // none, but Length bytes would answer GET
	FormContent             // Content
	FormStream              // Stream
)

// Errors of Answer, beside those of Open and NameOf.
var (
	// ErrNoFinalSlash: the client must ask for the folder by a path that ends with a slash.
	// Relative references in its page would otherwise be wrong.
	ErrNoFinalSlash = errors.New("sluice: the path of a folder has no final slash")
	// ErrConditions: a precondition is false.
	ErrConditions = errors.New("sluice: a precondition is false")
	// ErrRange: no range of the request lies in the file.
	ErrRange = errors.New("sluice: the ranges are not in the file")
)

// An UnreadableError is that of a file that was opened and cannot be read.
type UnreadableError struct{ error }

// Answer answers with the file at a decoded path, which may be another one than r.Path.
func (s *Site) Answer(r *Request, p []byte) error {
	s.look.Do(s.lookAtRoot)
	name, isFolder, err := NameOf(p)
	switch {
	case err != nil:
		return err
	case s.only != nil && len(name) > 0 && string(name) != RootName: // the only file is at the root
		return fs.ErrNotExist
	case s.only != nil:
		return s.answerName(r, s.only)
	case isFolder:
		return s.answerFolder(r, name)
	case len(name) == 0 && !HasFinalSlash(r.Path):
		return ErrNoFinalSlash
	case len(name) == 0:
		return s.answerFolder(r, ascii.Bytes(RootName))
	}
	return s.answerName(r, name)
}

// AnswerChosen answers with the file at a path that the program chose.
func (s *Site) AnswerChosen(r *Request, p []byte) error {
	name, _, err := NameOf(p)
	if err != nil {
		return err
	}
	if len(name) == 0 { // a network share on Windows
		name = ascii.Bytes(RootName)
	}
	return s.answerOrList(r, name, !HasFinalSlash(r.Path))
}

// lookAtRoot makes s serve a single file if the root is a file, as in a route for one
// file. Nothing beside that file is served.
func (s *Site) lookAtRoot() {
	o, name, isFile := s.Options, "", false
	if o.FS != nil {
		o.FS, name, isFile = SingleOf(o.FS, s.rootInFS())
	} else if o.Root != "" {
		o.Root, name, isFile = SingleAt(o.Root)
	}
	if isFile {
		s.store, s.only = New(o), []byte(name)
	}
}

// answerName answers with the file of a name.
func (s *Site) answerName(r *Request, name []byte) error {
	f, err := s.open(r, name)
	switch {
	case err == nil:
		return s.send(r, f)
	case !errors.Is(err, ErrIsDirectory):
		return err
	case HasFinalSlash(r.Path): // a rewriter has removed the slash
		return s.answerFolder(r, name)
	}
	return ErrNoFinalSlash
}

// open opens a file in the encoding that suits the request.
func (s *Site) open(r *Request, name []byte) (*File, error) { return s.store.Open(name, s.choose(r)) }

// choose returns the encoding that suits a request best.
func (s *Site) choose(r *Request) Encoding {
	if len(s.Offers) > 0 {
		accept := compress.ReadAccept(r.Header)
		if offer, ok := accept.Choose(s.Offers); ok {
			return EncodingOf(offer.Coding)
		}
	}
	return Identity
}

// answerFolder answers for a folder: with its index file, or a list of its entries. The path
// of a file may also end with a slash, because rewriters append one.
func (s *Site) answerFolder(r *Request, name []byte) error {
	var space [128]byte
	for _, index := range s.IndexNames {
		in := space[:0]
		if string(name) != RootName {
			in = append(append(in, name...), '/')
		}
		f, err := s.open(r, append(in, index...))
		switch {
		case err == nil:
			return s.send(r, f)
		case !IsNotFound(err) && !errors.Is(err, ErrIsDirectory):
			return err
		}
	}
	return s.answerOrList(r, name, false)
}

// answerOrList answers with the file of a name, or with a list of a folder, whose links are
// relative; if needsSlash, the client must ask for it by another path.
func (s *Site) answerOrList(r *Request, name []byte, needsSlash bool) error {
	f, err := s.open(r, name)
	switch {
	case err == nil:
		return s.send(r, f)
	case !errors.Is(err, ErrIsDirectory) || !s.HasListing:
		return err
	case needsSlash:
		return ErrNoFinalSlash
	}
	page, err := s.store.Index(name, r.Path, s.choose(r))
	if err != nil {
		return err
	}
	r.Response.Del([]byte("Content-Encoding")) // it was set for a file, not for this page
	return s.send(r, page)
}

// IsNotFound reports whether err says that there is no such file. For clients, files outside
// the root do not exist.
func IsNotFound(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, ErrOutside)
}

// send answers with a file, with parts of it, or with 304, 412 or 416, as the request's
// conditions and ranges require. It releases f.
func (s *Site) send(r *Request, f *File) error {
	defer f.Release()
	h := r.Response
	if s.varies(f) {
		h.AddVary("Accept-Encoding")
	}
	v := f.Validators(s.HasETags)
	if len(v.ETag) > 0 {
		h.SetKnown(field.ETag, v.ETag)
	}
	switch {
	case !v.HasModified:
	case v.Modified == f.modified.Unix():
		h.SetKnown(field.LastModified, f.lastModified)
	default:
		h.SetLastModified(time.Unix(v.Modified, 0))
	}
	if isOver, err := checkConditions(r, v); isOver {
		return err
	}
	h.SetContentType(ascii.Bytes(f.contentType))
	if coding := f.encoding.ContentCoding(); coding != "" {
		h.SetKnown(field.ContentEncoding, ascii.Bytes(coding))
	}
	h.SetStatus(message.StatusOK)
	if s.HasRanges && !f.isIndex {
		h.SetKnown(field.AcceptRanges, textBytes)
		if isRange, err := s.sendRanges(r, f, v); isRange {
			return err
		}
	}
	return sendSpan(r, f, conditional.Span{Length: f.size})
}

// checkConditions answers if the request's conditions exclude a 2xx.
func checkConditions(r *Request, v conditional.Validators) (isOver bool, err error) {
	switch r.Header.Conditions(r.Header.IsMethod("GET") || r.Header.IsMethod("HEAD"), v) {
	case conditional.NotModified:
		// Fields that were set before, such as Cache-Control, belong to this answer too (RFC
		// 9110 section 15.4.5).
		r.Response.SetStatus(message.StatusNotModified)
		return true, nil
	case conditional.PreconditionFailed:
		return true, ErrConditions
	}
	return false, nil
}

// textBytes is the only range unit.
var textBytes = []byte("bytes")

// sendRanges answers with the parts of f that the request asks for. isRange is false if the
// whole file must be sent. Ranges apply to GET only (RFC 9110 section 14.2).
func (s *Site) sendRanges(r *Request, f *File, v conditional.Validators) (isRange bool, err error) {
	value, ok := r.Header.SingleLine(field.Range)
	if !ok || !r.Header.IsMethod("GET") || !s.mayRange(r, f, v) {
		return false, nil
	}
	var space [8]conditional.Span
	spans, verdict := conditional.ParseRange(space[:0], value, f.size)
	switch {
	case verdict == conditional.Unsatisfiable:
		r.Length = f.size
		return true, ErrRange
	case verdict == conditional.Whole, len(spans) > 1 && !f.IsSeekable(): // each part would read the file from its beginning
		return false, nil
	case len(spans) > 1:
		return true, sendParts(r, f, spans)
	}
	var text [64]byte
	r.Response.SetStatus(message.StatusPartialContent)
	r.Response.SetKnown(field.ContentRange, conditional.AppendContentRange(text[:0], spans[0], f.size))
	return true, sendSpan(r, f, spans[0])
}

// mayRange evaluates If-Range (RFC 9110 section 13.1.5).
func (s *Site) mayRange(r *Request, f *File, v conditional.Validators) bool {
	if r.Header.Table.Index(field.IfRange) < 0 {
		return true
	}
	value, ok := r.Header.SingleLine(field.IfRange)
	if !ok || len(value) == 0 {
		return false
	}
	date, isDate := message.UnixDate(value)
	// A date is a strong validator only if the file cannot have had another
	// content within that second (section 8.8.2.2), and not for encodings of a
	// file, which share the date (section 8.8.1). A client that accepts none of
	// the encodings has received the bytes of the file itself.
	isStrong := clock.Coarse().Unix() > v.Modified+1 && (!s.varies(f) || s.choose(r) == Identity)
	return conditional.MayRange(value, date, isDate && isStrong, v)
}

// varies reports whether the answer depends on Accept-Encoding.
func (s *Site) varies(f *File) bool {
	return len(s.Offers) > 0 && (f.encoding != Identity || IsEncodable(f.contentType))
}

// sendSpan answers with a span of f.
func sendSpan(r *Request, f *File, span conditional.Span) error {
	r.Length = span.Length
	if r.Header.IsMethod("HEAD") {
		r.Form = FormHead
		return nil
	}
	if f.data != nil {
		r.Form, r.Content = FormContent, f.data[span.Offset:span.Offset+span.Length]
		return nil
	}
	part, err := f.Part(span.Offset, span.Length)
	if err != nil {
		return UnreadableError{err}
	}
	r.Form, r.Stream = FormStream, part
	return nil
}

// sendParts answers with several spans of f (RFC 9110 section 15.3.7.2).
func sendParts(r *Request, f *File, spans []conditional.Span) error {
	body, err := f.Ranges(spans)
	if err != nil {
		return UnreadableError{err}
	}
	r.Response.SetStatus(message.StatusPartialContent)
	r.Response.SetContentType([]byte("multipart/byteranges; boundary=" + body.Boundary))
	r.Form, r.Length, r.Content, r.Stream = FormStream, body.Length, body.Content, body
	if body.Content != nil {
		r.Form = FormContent
	}
	return nil
}
