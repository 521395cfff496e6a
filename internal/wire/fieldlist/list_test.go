package fieldlist

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

var wideLimits = h1.Limits{MaxLine: 1 << 16, MaxHead: 1 << 20, MaxFields: 1 << 10}

// A reader has a List and what is needed for it.
type reader struct {
	List
	table field.Table
	head  Head
}

func newReader() *reader {
	return &reader{List: List{Limits: wideLimits, AcceptsConnect: true}}
}

// read makes a list of "name: value" lines; a name may begin with ":".
func (r *reader) read(kind Kind, lines string) error {
	r.table.Reset()
	r.Begin(kind, &r.table, &r.head)
	r.Out = r.table.Raw()
	for line := range strings.SplitSeq(lines, "\n") {
		if line == "" {
			continue
		}
		at := strings.Index(line[1:], ":") + 1
		r.field(line[:at], strings.TrimPrefix(line[at+1:], " "))
	}
	r.table.SetRaw(r.Out)
	return r.Finish()
}

func (r *reader) field(name, value string) {
	start, code := len(r.Out), CodeOf([]byte(name))
	v := FieldViolation(code, NameViolation(code, []byte(name)), []byte(name), []byte(value))
	if r.KeepsName(code) {
		r.Out = append(r.Out, name...)
	}
	at := r.BeginValue(code, start)
	r.Out = append(r.Out, value...)
	if r.Counts(code, len(value), len(name)+len(value)+FieldOverhead) {
		r.Add(code, v, start, at)
	} else {
		r.Out = r.Out[:start]
	}
}

const plainGet = ":method: GET\n:scheme: http\n:path: /\n:authority: a\n"

// long: a table
func TestRequestRules(t *testing.T) {
	const connect = ":method: CONNECT\n:authority: a:1"
	const extended = ":method: CONNECT\n:protocol: websocket\n:scheme: https\n:path: /chat\n:authority: a"
	for lines, want := range map[string]error{
		plainGet:                   nil,
		plainGet + "a: b\nc: \td ": ErrFieldValue,
		// pseudo-fields
		" : ":                                                   ErrFieldName,
		"x: y":                                                  ErrPseudoMissing,
		":scheme: http\n:path: /":                               ErrPseudoMissing,
		":method: GET\n:path: /":                                ErrPseudoMissing,
		":method: GET\n:scheme: http":                           ErrPseudoMissing,
		plainGet + ":method: GET":                               ErrPseudoRepeated,
		plainGet + ":path: /":                                   ErrPseudoRepeated,
		plainGet + ":scheme: http":                              ErrPseudoRepeated,
		plainGet + ":authority: a":                              ErrPseudoRepeated,
		plainGet + ":status: 200":                               ErrPseudoForbidden,
		plainGet + ":version: 1":                                ErrPseudoUnknown,
		plainGet + "::: 1":                                      ErrPseudoUnknown,
		plainGet + ":Path: 1":                                   ErrPseudoUnknown,
		"a: b\n" + plainGet:                                     ErrPseudoOrder,
		plainGet + "a: b\n:version: 1":                          ErrPseudoUnknown,
		plainGet + ":protocol: websocket":                       ErrPseudoForbidden,
		connect:                                                 nil,
		connect + "\n:path: /":                                  ErrPseudoForbidden,
		connect + "\n:scheme: http":                             ErrPseudoForbidden,
		":method: CONNECT":                                      ErrPseudoMissing,
		":method: CONNECT\nhost: a:1":                           ErrPseudoMissing,
		":method: connect\nhost: a:1":                           ErrPseudoMissing,
		strings.TrimSuffix(connect, ":1"):                       ErrAuthority,
		extended:                                                nil,
		extended + "\n:protocol: x":                             ErrPseudoRepeated,
		strings.Replace(extended, "/chat", "*", 1):              ErrPath,
		strings.Replace(extended, ":path: /chat\n", "", 1):      ErrPseudoMissing,
		strings.Replace(extended, ":scheme: https\n", "", 1):    ErrPseudoMissing,
		strings.Replace(extended, "\n:authority: a", "", 1):     ErrPseudoMissing,
		strings.Replace(extended, "websocket", "web socket", 1): ErrProtocol,
		// their values
		strings.Replace(plainGet, "GET", "", 1):                                      ErrMethod,
		strings.Replace(plainGet, "GET", "G T", 1):                                   ErrMethod,
		strings.Replace(plainGet, "GET", "OTHER", 1):                                 nil,
		strings.Replace(plainGet, "GET", "\x00", 1):                                  ErrMethod,
		strings.Replace(plainGet, ": http", ": ", 1):                                 ErrScheme,
		strings.Replace(plainGet, "http", "1x", 1):                                   ErrScheme,
		strings.Replace(plainGet, "http", "a b", 1):                                  ErrScheme,
		strings.Replace(plainGet, "http", "a+b.c-1", 1):                              h1.ErrMisdirected,
		strings.Replace(plainGet, "http", "HTTPS", 1):                                nil,
		strings.Replace(plainGet, "/", "", 1):                                        ErrPath,
		strings.Replace(plainGet, "/", "x", 1):                                       ErrPath,
		strings.Replace(plainGet, "/", "*", 1):                                       ErrPath,
		strings.Replace(plainGet, "/", "/ ", 1):                                      ErrPath,
		strings.Replace(plainGet, "/", "/#a", 1):                                     ErrPath,
		strings.Replace(plainGet, "/", "/%4", 1):                                     ErrPath,
		strings.Replace(plainGet, "/", "/%4a?%", 1):                                  nil,
		strings.Replace(plainGet, "/", "/a\rb", 1):                                   ErrPath,
		strings.Replace(plainGet, "/", "http://a/", 1):                               ErrPath,
		strings.Replace(strings.Replace(plainGet, "/", "*", 1), "GET", "OPTIONS", 1): nil,
		strings.Replace(plainGet, ": a", ": ", 1):                                    ErrAuthority,
		strings.Replace(plainGet, ": a", ": u@a", 1):                                 ErrAuthority,
		strings.Replace(plainGet, ": a", ": a/", 1):                                  ErrAuthority,
		// authority and host
		strings.Replace(plainGet, ":authority", "host", 1):                nil,
		strings.Replace(plainGet, ":authority: a", "", 1):                 ErrNoAuthority,
		strings.Replace(plainGet, ":authority: a", "host: a/b", 1):        ErrAuthority,
		strings.Replace(plainGet, ":authority: a", "host: ", 1):           ErrAuthority,
		strings.Replace(plainGet, ":authority: a", "host: a\nhost: a", 1): ErrHostDisagrees,
		plainGet + "host: a":          nil,
		plainGet + "host: A":          nil,
		plainGet + "host: b":          ErrHostDisagrees,
		plainGet + "host: ":           ErrHostDisagrees,
		plainGet + "host: a\nhost: a": ErrHostDisagrees,

		plainGet + "authorization: a\nauthorization: b": h1.ErrTwoCredentials,
		// fields
		plainGet + "A: b":                                 ErrFieldName,
		plainGet + "a b: c":                               ErrFieldName,
		plainGet + "ä: c":                                 ErrFieldName,
		plainGet + "Host: a":                              ErrFieldName,
		plainGet + "a: b\x00c":                            ErrFieldValue,
		plainGet + "a: b\rc":                              ErrFieldValue,
		plainGet + "a: \tb":                               ErrFieldValue,
		plainGet + "a: b ":                                ErrFieldValue,
		plainGet + "a: ":                                  nil,
		plainGet + "a: b\tc\xff":                          nil,
		plainGet + "a: b\x7f":                             ErrFieldValue,
		plainGet + "connection: close":                    ErrConnectionOnly,
		plainGet + "keep-alive: 1":                        ErrConnectionOnly,
		plainGet + "proxy-connection: close":              ErrConnectionOnly,
		plainGet + "transfer-encoding: chunked":           ErrConnectionOnly,
		plainGet + "upgrade: x":                           ErrConnectionOnly,
		plainGet + "te: trailers":                         nil,
		plainGet + "te: Trailers":                         nil,
		plainGet + "te: gzip":                             ErrTE,
		plainGet + "te: trailers, gzip":                   ErrTE,
		plainGet + "te: ":                                 ErrTE,
		plainGet + "content-length: 10":                   nil,
		plainGet + "content-length: ":                     ErrLength,
		plainGet + "content-length: +1":                   ErrLength,
		plainGet + "content-length: 1, 1":                 ErrLength,
		plainGet + "content-length: 1\ncontent-length: 1": ErrLength,
		plainGet + "content-length: 99999999999999999999": ErrLength,
		plainGet + "expect: 100-continue":                 nil,
		plainGet + "expect: x":                            h1.ErrExpectation,
		plainGet + "A: b\nexpect: x":                      ErrFieldName, // the first violation
	} {
		if err := newReader().read(Request, lines); err != want {
			t.Errorf("%q: %v, want %v", lines, err, want)
		}
	}
}

func TestResponseRules(t *testing.T) {
	for lines, want := range map[string]error{
		":status: 200":                       nil,
		":status: 200\na: b":                 nil,
		":status: 999":                       nil,
		"a: b":                               ErrPseudoMissing,
		":status: 20":                        ErrStatus,
		":status: 2000":                      ErrStatus,
		":status: 2x0":                       ErrStatus,
		":status: 099":                       ErrStatus,
		":status: 101":                       ErrStatus,
		":status: ":                          ErrStatus,
		":status: 200\n:status: 200":         ErrPseudoRepeated,
		":status: 200\n:method: GET":         ErrPseudoForbidden,
		"a: b\n:status: 200":                 ErrPseudoOrder,
		":status: 200\nconnection: close":    ErrConnectionOnly,
		":status: 200\nexpect: whatever":     nil,
		":status: 200\ncontent-length: 1, 1": nil, // as in HTTP/1.1
		":status: 200\ncontent-length: 1, 2": ErrLength,
		":status: 200\ncontent-length: 1\ncontent-length: 1": nil,
	} {
		if err := newReader().read(Response, lines); err != want {
			t.Errorf("%q: %v, want %v", lines, err, want)
		}
	}
}

func TestTrailerRules(t *testing.T) {
	for lines, want := range map[string]error{
		"":                    nil,
		"a: b":                nil,
		":path: /":            ErrPseudoForbidden,
		"a: b\n:status: 200":  ErrPseudoForbidden,
		"content-length: abc": nil, // means nothing there
		"connection: x":       ErrConnectionOnly,
		"A: b":                ErrFieldName,
	} {
		if err := newReader().read(Trailer, lines); err != want {
			t.Errorf("%q: %v, want %v", lines, err, want)
		}
	}
}

func TestExtendedConnectMustBeAnnounced(t *testing.T) {
	r := newReader()
	r.AcceptsConnect = false
	list := ":method: CONNECT\n:protocol: websocket\n:scheme: https\n:path: /chat\n:authority: a"
	if err := r.read(Request, list); err != ErrPseudoForbidden {
		t.Error(err)
	}
}

// TestHead: what a message says beside its fields, in the terms of HTTP/1.1.
func TestHead(t *testing.T) {
	r := newReader()
	lines := ":method: POST\n:scheme: https\n:path: /a?b\n:authority: a.b:1\ncontent-length: 12\nexpect: 100-Continue\nx: y"
	for _, keepNames := range []bool{false, true} {
		r.table.KeepNames = keepNames
		if err := r.read(Request, lines); err != nil {
			t.Fatal(err)
		}
		raw := r.table.Raw()
		for want, span := range map[string]h1.Span{"POST": r.head.Method, "/a?b": r.head.Target, "https": r.head.Scheme, "a.b:1": r.head.Authority, "": r.head.Connect} {
			if got := string(span.In(raw)); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if !r.head.Has(h1.HasLength) || !r.head.Has(h1.ExpectContinue) || r.head.ContentLength != 12 || r.head.Minor != 1 || !r.head.KeepsAlive() {
			t.Errorf("%+v", r.head.Head)
		}
		i := r.table.Index(field.Host)
		if i < 0 || string(r.table.Value(i)) != "a.b:1" || !strings.EqualFold(string(r.table.Name(i)), "host") {
			t.Errorf("Host is field %d", i)
		}
	}
	if err := r.read(Request, ":method: CONNECT\n:authority: a.b:1"); err != nil {
		t.Fatal(err)
	}
	if got := string(r.head.Target.In(r.table.Raw())); got != "a.b:1" || !r.head.Has(h1.AuthorityForm) {
		t.Errorf("the target of CONNECT is %q", got)
	}
}
