package h1

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// TestMaxFieldsInPieces: the number of fields is bounded for any cut of the head.
func TestMaxFieldsInPieces(t *testing.T) {
	const allowed = 4
	limits := Limits{MaxLine: 100, MaxHead: 1000, MaxFields: allowed}
	for role, first := range map[Role]string{Requests: "GET / HTTP/1.1\r\n", Responses: "HTTP/1.1 200 OK\r\n"} {
		for count := allowed - 1; count <= allowed+3; count++ {
			head := first + "Host: h\r\n" + strings.Repeat("X-Name: value\r\n", count-1) + "\r\n"
			for cut := range len(head) + 1 {
				p := HeadParser{Limits: limits, Role: role}
				var tab field.Table
				_, done, err := p.Parse(&tab, []byte(head[:cut]))
				if err == nil && !done {
					_, done, err = p.Parse(&tab, []byte(head[cut:]))
				}
				if isTooMany := count > allowed; isTooMany != errors.Is(err, ErrTooManyFields) || done == isTooMany {
					t.Errorf("role %v, %d fields, cut at %d: done %v, %v", role, count, cut, done, err)
				}
				if tab.Len() > allowed {
					t.Errorf("role %v, %d fields, cut at %d: %d are kept", role, count, cut, tab.Len())
				}
			}
		}
	}
}

// TestStatusOfErrors checks a server's status for each violation.
func TestStatusOfErrors(t *testing.T) {
	for status, all := range map[int][]*Error{
		400: {
			ErrBareLF, ErrBareCR, ErrControl, ErrMethod, ErrRequestLine, ErrVersion, ErrTarget, ErrStatusLine,
			ErrFieldName, ErrFieldLine, ErrFolding, ErrHostMissing, ErrHostDuplicate, ErrHost, ErrTwoCredentials, ErrMisdirected,
			ErrTargetForm, ErrTruncatedMessage, ErrContentLength, ErrContentLengthConflict, ErrLengthAndCoding,
			ErrTransferCoding, ErrTransferCodingHTTP10, ErrChunkSize, ErrChunkEnd, ErrChunkExtension,
			ErrChunkExtensionTooLarge, ErrTrailer,
		},
		414: {ErrLineTooLong},
		417: {ErrExpectation},
		431: {ErrHeadTooLarge, ErrTooManyFields, ErrTrailerTooLarge},
		501: {ErrTransferCodingUnknown},
		505: {ErrMajorVersion},
	} {
		for _, err := range all {
			if err.Status != status || err.Error() != "sluice: "+err.msg {
				t.Errorf("%v: status %d, want %d", err, err.Status, status)
			}
		}
	}
}

// TestDefaultLimits: the defaults are documented.
func TestDefaultLimits(t *testing.T) {
	if want := (Limits{MaxLine: 8192, MaxHead: 65536, MaxFields: 200}); DefaultLimits != want {
		t.Errorf("%+v, want %+v", DefaultLimits, want)
	}
}

// TestMaxHead: what is longer than MaxHead is refused when MaxHead bytes are there, however they arrive, and
// the error tells which part is too long.
func TestMaxHead(t *testing.T) {
	const most = 60
	line, field60 := "GET / HTTP/1.1\r\n", "X-Name: "+strings.Repeat("v", 60)
	for name, c := range map[string]struct {
		in   string
		want error
	}{
		"head":         {line + "Host: h\r\n" + field60, ErrHeadTooLarge},
		"field's name": {line + strings.Repeat("n", 60), ErrHeadTooLarge},
		"request line": {"GET /" + strings.Repeat("a", 60), ErrLineTooLong},
		"trailer":      {field60, ErrTrailerTooLarge},
		"whole head":   {line + "Host: h\r\nX: " + strings.Repeat("v", most-len(line)-9-3-4) + "\r\n\r\n", nil},
	} {
		for _, size := range []int{1, 7, most, 1000} {
			p := HeadParser{Limits: Limits{MaxLine: 1000, MaxHead: most, MaxFields: 9}}
			if name == "trailer" {
				p.ResetTrailer()
			}
			var tab field.Table
			used, done, err := 0, false, error(nil)
			for err == nil && !done && used < len(c.in) {
				var n int
				n, done, err = p.Parse(&tab, []byte(c.in[used:min(used+size, len(c.in))]))
				used += n
			}
			if err != c.want || done != (err == nil) || err != nil && used >= most {
				t.Errorf("%s in pieces of %d: used %d, done %v, %v", name, size, used, done, err)
			}
		}
	}
}
