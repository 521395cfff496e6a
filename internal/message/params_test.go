package message

import (
	"fmt"
	"strings"
	"testing"
)

// TestVisitParams: parameters are token "=" token or quoted-string (RFC 9110 section 5.6.6). What
// is none ends the list.
func TestVisitParams(t *testing.T) {
	for value, want := range map[string]string{
		"":                         "",
		"text/html":                "",
		"text/html;":               "",
		"a;b=c":                    "b=c",
		"a; b=c;\td=e ;; f=g":      "b=c|d=e|f=g",
		`a; b="c;d\"e"; f=""; g=h`: `b=c;d\"e|f=|g=h`,
		"a; b=c d; e=f":            "b=c|e=f",
		`a; b="c`:                  "",
		`a; b="c\"`:                "",
		"a; b":                     "",
		"a; b=":                    "",
		"a; b ; c=d":               "",
		"a; =c":                    "",
		"a; b =c":                  "",
		"a; x=1; b= c; y=2":        "x=1",
		"; b=c":                    "b=c",
		`a; b="c"d; e=f`:           "b=c|e=f",
	} {
		var got []string
		VisitParams([]byte(value), func(key, value []byte) bool {
			got = append(got, fmt.Sprintf("%s=%s", key, value))
			return true
		})
		if all := strings.Join(got, "|"); all != want {
			t.Errorf("%q: %s, want %s", value, all, want)
		}
	}
	n := 0
	VisitParams([]byte("a; b=c; d=e; f=g"), func([]byte, []byte) bool { n++; return n < 2 })
	if n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}

// TestMultipartBoundary: quotes around a boundary do not belong to it, others do.
func TestMultipartBoundary(t *testing.T) {
	for contentType, want := range map[string]string{
		"multipart/form-data; boundary=b":                 "b",
		"Multipart/Form-Data ;charset=x; BOUNDARY=b":      "b",
		`multipart/form-data; boundary="b;c"; x=y`:        "b;c",
		`multipart/form-data; boundary="b" ; x=y`:         "b",
		`multipart/form-data; boundary="b`:                `"b`,
		`multipart/form-data; boundary="b"c; x=y`:         `"b"c`,
		"multipart/form-data; boundary=a:b/c?d e ; x=y":   "a:b/c?d e",
		"multipart/form-data; boundary=b; boundary=c":     "b",
		`multipart/form-data; x="boundary=c"; boundary=b`: "b",
		"multipart/form-data; x; boundary=b":              "b",
		"multipart/form-data; boundary; boundary=b":       "",
		"multipart/form-data; boundary =b":                "",
		"multipart/form-data; boundary= b":                " b",
		"multipart/form-data; boundary":                   "",
		"multipart/form-data":                             "",
		"multipart/mixed; boundary=b":                     "",
		"":                                                "",
	} {
		var h RequestHeader
		h.Put("Content-Type", []byte(contentType), Sets)
		if got := string(h.MultipartBoundary()); got != want {
			t.Errorf("%q: %q, want %q", contentType, got, want)
		}
	}
}

// TestSetMultipartBoundary: a boundary that is not a token is quoted, without quotes and
// backslashes in it (RFC 2046 section 5.1.1).
func TestSetMultipartBoundary(t *testing.T) {
	for boundary, want := range map[string][2]string{
		"b":         {"multipart/form-data; boundary=b", "b"},
		"a:b c":     {`multipart/form-data; boundary="a:b c"`, "a:b c"},
		`a"b\c`:     {`multipart/form-data; boundary="abc"`, "abc"},
		"a;b":       {`multipart/form-data; boundary="a;b"`, "a;b"},
		"":          {`multipart/form-data; boundary=""`, ""},
		"a\r\nX: y": {`multipart/form-data; boundary="a  X: y"`, "a  X: y"},
	} {
		var h RequestHeader
		h.SetMultipartBoundary([]byte(boundary))
		if got := string(h.Peek([]byte("Content-Type"))); got != want[0] {
			t.Errorf("%q: %q, want %q", boundary, got, want[0])
		}
		if got := string(h.MultipartBoundary()); got != want[1] {
			t.Errorf("%q: the boundary is %q, want %q", boundary, got, want[1])
		}
	}
}
