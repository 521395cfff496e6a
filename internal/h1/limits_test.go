package h1

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/field"
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
			ErrFieldName, ErrFieldLine, ErrFolding, ErrHostMissing, ErrHostDuplicate, ErrHost, ErrMisdirected,
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
			if err.Status != status {
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
