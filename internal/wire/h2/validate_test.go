package h2

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// fieldLines makes a block of "name: value" lines; a name may begin with ":".
func fieldLines(lines string) (block []byte) {
	for line := range strings.SplitSeq(lines, "\n") {
		if line == "" {
			continue
		}
		at := strings.Index(line[1:], ":") + 1
		block = append(block, inserted(line[:at], strings.TrimPrefix(line[at+1:], " "))...)
	}
	return block
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
		block := fieldLines(lines)
		r := newBlockReader()
		if err := r.read(RequestBlock, block); err != want {
			t.Errorf("%q: %v, want %v", lines, err, want)
		}
		table := r.d.AppendPacked(nil)
		for i := range block { // the result does not depend on cuts, and the table stays in step
			r := newBlockReader()
			if err := r.read(RequestBlock, block[:i], block[i:]); err != want {
				t.Errorf("%q cut at %d: %v, want %v", lines, i, err, want)
			}
			if got := r.d.AppendPacked(nil); string(got) != string(table) {
				t.Fatalf("%q cut at %d: another table", lines, i)
			}
		}
	}
}

// TestFlawsAreKept: an entry of the table is malformed as often as it is used, and its
// name is not because its value was.
func TestFlawsAreKept(t *testing.T) {
	for line, want := range map[string]error{"A: b": ErrFieldName, "a: b\r": ErrFieldValue, "te: gzip": ErrTE, "connection: x": ErrConnectionOnly, "x: y": nil} {
		r := newBlockReader()
		if err := r.read(RequestBlock, requestWith(fieldLines(line))); err != want {
			t.Errorf("%s: %v, want %v", line, err, want)
		}
		if err := r.read(RequestBlock, requestWith([]byte{0xbe})); err != want {
			t.Errorf("%s indexed: %v, want %v", line, err, want)
		}
		if want == ErrFieldValue || want == ErrTE {
			want = nil
		}
		if err := r.read(RequestBlock, requestWith([]byte{0x0f, 62 - 15, 8}, []byte("trailers"))); err != want {
			t.Errorf("%s, only its name: %v, want %v", line, err, want)
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
		r := newBlockReader()
		if err := r.read(ResponseBlock, fieldLines(lines)); err != want {
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
		r := newBlockReader()
		r.d.Begin(TrailerBlock, &r.table, nil)
		err := r.d.Push(fieldLines(lines))
		if err == nil {
			err = r.d.End()
		}
		if err != want {
			t.Errorf("%q: %v, want %v", lines, err, want)
		}
	}
}

func TestUnwantedBlock(t *testing.T) {
	r := newBlockReader()
	r.d.Begin(UnwantedBlock, nil, nil)
	if err := r.d.Push(fieldLines("A: b\n:x: y\ncookie: z\nconnection: close")); err != nil {
		t.Fatal(err)
	}
	if err := r.d.End(); err != nil {
		t.Fatal(err)
	}
	if r.d.table.count != 4 {
		t.Errorf("%d entries", r.d.table.count)
	}
}

func TestExtendedConnectMustBeAnnounced(t *testing.T) {
	r := newBlockReader()
	r.d.AcceptsConnect = false
	block := fieldLines(":method: CONNECT\n:protocol: websocket\n:scheme: https\n:path: /chat\n:authority: a")
	if err := r.read(RequestBlock, block); err != ErrPseudoForbidden {
		t.Error(err)
	}
}

// TestHead: what a message says beside its fields, in the terms of HTTP/1.1.
func TestHead(t *testing.T) {
	r := newBlockReader()
	lines := ":method: POST\n:scheme: https\n:path: /a?b\n:authority: a.b:1\ncontent-length: 12\nexpect: 100-Continue\nx: y"
	for _, keepNames := range []bool{false, true} {
		r.table.KeepNames = keepNames
		if err := r.read(RequestBlock, fieldLines(lines)); err != nil {
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
	if err := r.read(RequestBlock, fieldLines(":method: CONNECT\n:authority: a.b:1")); err != nil {
		t.Fatal(err)
	}
	if got := string(r.head.Target.In(r.table.Raw())); got != "a.b:1" || !r.head.Has(h1.AuthorityForm) {
		t.Errorf("the target of CONNECT is %q", got)
	}
}
