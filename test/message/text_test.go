package message_test

import (
	"bytes"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

func TestAppendUint(t *testing.T) {
	for _, n := range []int{0, 9, 10, 12345, math.MaxInt} {
		if got := string(sluice.AppendUint([]byte("x"), n)); got != "x"+strconv.Itoa(n) {
			t.Errorf("%d: %q", n, got)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic for a negative number")
		}
	}()
	sluice.AppendUint(nil, -1)
}

func TestParseNumbers(t *testing.T) {
	if n, err := sluice.ParseUint([]byte("0123")); n != 123 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for s, want := range map[string]error{"": ascii.ErrEmptyNumber, "1x": ascii.ErrNotNumber, "9223372036854775808": ascii.ErrNumberRange, strconv.FormatUint(math.MaxInt+1, 10): ascii.ErrNumberRange} {
		if n, err := sluice.ParseUint([]byte(s)); n != -1 || !errors.Is(err, want) {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
	if n, err := sluice.ParseUint([]byte(strconv.Itoa(math.MaxInt))); n != math.MaxInt || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if f, err := sluice.ParseUfloat([]byte("1.5")); f != 1.5 || err != nil {
		t.Errorf("%v, %v", f, err)
	}
}

func TestEscapingFunctions(t *testing.T) {
	for name, test := range map[string]struct {
		got  []byte
		want string
	}{
		"AppendHTMLEscape":               {sluice.AppendHTMLEscape([]byte("x"), "<&'\">"), "x&lt;&amp;&#39;&#34;&gt;"},
		"AppendHTMLEscapeBytes":          {sluice.AppendHTMLEscapeBytes([]byte("x"), []byte("<&'\">")), "x&lt;&amp;&#39;&#34;&gt;"},
		"AppendQuotedArg":                {sluice.AppendQuotedArg([]byte("x"), []byte("a b/é")), "xa+b%2F%C3%A9"},
		"AppendUnquotedArg":              {sluice.AppendUnquotedArg([]byte("x"), []byte("a+b%2F%zz")), "xa b/%zz"},
		"AppendNormalizedHeaderKey":      {sluice.AppendNormalizedHeaderKey([]byte("x"), "content-TYPE"), "xContent-Type"},
		"AppendNormalizedHeaderKeyBytes": {sluice.AppendNormalizedHeaderKeyBytes([]byte("x"), []byte("a b\r\n")), "xa b  "},
	} {
		if string(test.got) != test.want {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
}

func TestIPv4(t *testing.T) {
	for _, s := range []string{"0.0.0.0", "1.2.3.4", "255.255.255.255", "10.0.99.100"} {
		ip, err := sluice.ParseIPv4(nil, []byte(s))
		if err != nil || !ip.Equal(net.ParseIP(s)) || len(ip) != net.IPv4len {
			t.Errorf("%q: %v, %v", s, ip, err)
		}
		if got := string(sluice.AppendIPv4([]byte("x"), ip)); got != "x"+s {
			t.Errorf("%v: %q", ip, got)
		}
		if got := string(sluice.AppendIPv4(nil, ip.To16())); got != s {
			t.Errorf("%v in 16 bytes: %q", ip, got)
		}
	}
	for _, ip := range []net.IP{nil, {1, 2}, net.IPv6loopback} {
		if got := string(sluice.AppendIPv4([]byte("x"), ip)); got != "xnon-v4 ip passed to AppendIPv4" {
			t.Errorf("%v: %q", ip, got)
		}
	}
	for _, s := range []string{"", "1", "1.2.3", "1.2.3.", "1.2.3.4.", "1.2.3.4.5", ".1.2.3", "1..2.3", "256.1.1.1", "1.2.3.256", "01.2.3.4", "1.2.3.00", "1.2.3.-4", "1.2.3.+4",
		" 1.2.3.4", "1.2.3.4 ", "a.b.c.d", "1.2.3.99999999999999999999", "::1", "1,2,3,4"} {
		dst := net.IP{9, 9, 9, 9}
		if ip, err := sluice.ParseIPv4(dst, []byte(s)); err == nil || !ip.Equal(net.IP{9, 9, 9, 9}) {
			t.Errorf("%q: %v, %v", s, ip, err)
		}
	}
	dst := make(net.IP, net.IPv4len)
	if ip, err := sluice.ParseIPv4(dst, []byte("1.2.3.4")); err != nil || &ip[0] != &dst[0] {
		t.Errorf("dst is not used: %v, %v", ip, err)
	}
}

// FuzzParseIPv4 compares with package net.
func FuzzParseIPv4(f *testing.F) {
	f.Add("1.2.3.4")
	f.Add("01.2.3.999")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := sluice.ParseIPv4(nil, []byte(s))
		want := net.ParseIP(s)
		if isIPv4 := want != nil && !strings.Contains(s, ":"); (err == nil) != isIPv4 || isIPv4 && !got.Equal(want) {
			t.Fatalf("%q: %v, %v, package net says %v", s, got, err, want)
		}
	})
}

// FuzzParseByteRange checks that an accepted range lies within the content.
func FuzzParseByteRange(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "bytes=-5", "bytes=5-", "bytes=-0", "bytes=9223372036854775807-9223372036854775807"} {
		f.Add([]byte(s), 10)
	}
	f.Fuzz(func(t *testing.T, s []byte, length int) {
		start, end, err := sluice.ParseByteRange(s, length)
		if err != nil {
			if start != 0 || end != 0 {
				t.Fatalf("%q of %d: %d, %d with %v", s, length, start, end, err)
			}
			return
		}
		if start < 0 || end < start || end >= length {
			t.Fatalf("%q of %d: %d-%d", s, length, start, end)
		}
		again := sluice.AppendUint(append(sluice.AppendUint([]byte("bytes="), start), '-'), end)
		if start2, end2, err := sluice.ParseByteRange(again, length); start2 != start || end2 != end || err != nil {
			t.Fatalf("%q: %d-%d, %v", again, start2, end2, err)
		}
	})
}

func visitedParams(s string, most int) string {
	var all []string
	sluice.VisitHeaderParams([]byte(s), func(key, value []byte) bool {
		all = append(all, string(key)+"="+string(value))
		return len(all) < most
	})
	return strings.Join(all, "|")
}

func TestVisitHeaderParams(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "text/html": "", "a=b": "", "x; a=b": "a=b", "x;a=b;  c=d": "a=b|c=d", "; a=b": "a=b", "x; a=\"b;c\"; d=e": "a=b;c|d=e", "x; a=\"\"": "a=",
		"x; a=\"b\\\"c\"": "a=b\\\"c", "x; a=\"b": "", "x; a=\"\\\"": "", "x; a=": "", "x; =b": "", "x; a": "", "x; a; b=c": "", "x; a=b;;c=d": "a=b|c=d", "x;\ta=b\t;\t;;\tc=d;": "a=b|c=d", ";;": "", "x; ; a=b": "a=b", "x; a =b": "",
		"x; a=b c; d=e": "a=b|d=e", "x; a=b, c=d": "a=b", "x; a@=b": "", "x; A=B": "A=B",
	} {
		if got := visitedParams(s, 9); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	if got := visitedParams("x; a=b; c=d; e=f", 2); got != "a=b|c=d" {
		t.Errorf("not stopped: %q", got)
	}
}

// FuzzVisitHeaderParams checks that keys and values are what they may be.
func FuzzVisitHeaderParams(f *testing.F) {
	f.Add([]byte("x; a=b; c=\"d\\\"e\"; f"))
	f.Fuzz(func(t *testing.T, s []byte) {
		sluice.VisitHeaderParams(s, func(key, value []byte) bool {
			if len(key) == 0 || !ascii.All(key, ascii.Token) || !bytes.Contains(s, value) {
				t.Fatalf("%q: %q=%q", s, key, value)
			}
			return true
		})
	})
}

func TestAddMissingPort(t *testing.T) {
	for addr, want := range map[string]string{
		"": "", "a": "a:80", "a:8080": "a:8080", "a:": "a:", ":80": ":80", "1.2.3.4": "1.2.3.4:80", "[::1]": "[::1]:80", "[::1]:8080": "[::1]:8080", "::1": "::1",
		"[::1": "[::1", "[fe80::1%lo0]": "[fe80::1%lo0]:80",
	} {
		if got := sluice.AddMissingPort(addr, false); got != want {
			t.Errorf("%q: %q, want %q", addr, got, want)
		}
	}
	if got := sluice.AddMissingPort("a", true); got != "a:443" {
		t.Errorf("https: %q", got)
	}
}

func TestFileLastModified(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := os.Chtimes(name, want, want.Add(987*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got, err := sluice.FileLastModified(name); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := sluice.FileLastModified(name + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestCoarseTimeNow(t *testing.T) {
	before := time.Now()
	got := sluice.CoarseTimeNow()
	if got.Nanosecond() != 0 || got.After(time.Now()) || before.Sub(got) > 2*time.Second {
		t.Errorf("%v at %v", got, before)
	}
}

func BenchmarkVisitHeaderParams(b *testing.B) {
	s := []byte("form-data; name=\"field\"; filename=\"file.txt\"")
	for b.Loop() {
		sluice.VisitHeaderParams(s, func(_, _ []byte) bool { return true })
	}
}

func BenchmarkParseByteRange(b *testing.B) {
	s := []byte("bytes=1000-1999")
	for b.Loop() {
		_, _, _ = sluice.ParseByteRange(s, 100000)
	}
}
