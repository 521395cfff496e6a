package h1

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// framingOf parses a request with the given field lines.
func framingOf(t *testing.T, lines ...string) (Head, error) {
	t.Helper()
	p := HeadParser{Limits: DefaultLimits}
	var tab field.Table
	in := "POST / HTTP/1.1\r\nHost: x\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	_, done, err := p.Parse(&tab, []byte(in))
	if done == (err != nil) {
		t.Fatalf("%q: done=%v, %v", in, done, err)
	}
	return p.Head, err
}

func TestParseLengthAtItsEdges(t *testing.T) {
	for _, s := range []string{
		"0", "00", "9", "10", "9223372036854775799", "9223372036854775800", "9223372036854775806", "9223372036854775807",
		"9223372036854775808", "9223372036854775810", "18446744073709551615", "18446744073709551616", "92233720368547758070",
		"0009223372036854775807", "0009223372036854775808",
	} {
		want, _ := new(big.Int).SetString(s, 10)
		n, ok := parseLength([]byte(s))
		if ok != want.IsInt64() || ok && n != want.Int64() {
			t.Errorf("parseLength(%q) = %d, %v", s, n, ok)
		}
	}
	for _, s := range []string{"", " ", "1 ", "-0", "+0", "0x1", "1e1", "1_0", "½", "١"} {
		if n, ok := parseLength([]byte(s)); ok {
			t.Errorf("parseLength(%q) = %d", s, n)
		}
	}
}

func TestNothingButOneChunkedIsAccepted(t *testing.T) {
	for c := range 256 {
		for _, value := range []string{
			string([]byte{byte(c)}) + "chunked", "chunked" + string([]byte{byte(c)}), "chun" + string([]byte{byte(c)}) + "ked",
		} {
			head, err := framingOf(t, "Transfer-Encoding:"+value)
			isBlank := c == ' ' || c == '\t'
			if want := isBlank && !strings.HasSuffix(value, "ked") || isBlank && strings.HasSuffix(value, "chunked"); want != (err == nil) {
				t.Errorf("%q: %v", value, err)
			}
			if err == nil && !head.Has(ChunkedBody) {
				t.Errorf("%q is accepted, but is not chunked", value)
			}
		}
	}
}

// Both fields together are refused, whatever their values and order.
func TestLengthAndCodingAreNeverAcceptedTogether(t *testing.T) {
	for _, length := range []string{"0", "5", "5,5", ""} {
		for _, coding := range []string{"chunked", "identity", "gzip, chunked", "x", ""} {
			a, b := "Content-Length: "+length, "Transfer-Encoding: "+coding
			for _, lines := range [][]string{{a, b}, {b, a}, {a, "X: y", b, a}} {
				if _, err := framingOf(t, lines...); err == nil {
					t.Errorf("%q is accepted", lines)
				}
			}
		}
	}
}

func TestOneLength(t *testing.T) {
	for _, c := range []struct {
		lines string
		want  error
	}{
		{"Content-Length: 5", nil},
		{"Content-Length: 5\r\nContent-Length: 5", ErrContentLengthConflict},
		{"Content-Length: 5\r\nX: y\r\ncontent-length: 05", ErrContentLengthConflict},
		{"Content-Length: 5, 5", ErrContentLengthConflict},
		{"Content-Length: 0\r\nContent-Length: 5", ErrContentLengthConflict},
		{"Content-Length: 5\r\nContent-Length: 0", ErrContentLengthConflict},
		{"Content-Length: 5, 5, 6", ErrContentLengthConflict},
		{"Content-Length: 5\r\nContent-Length:", ErrContentLength},
		{"Content-Length: 5,,5", ErrContentLength},
	} {
		if _, err := framingOf(t, c.lines); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.lines, err, c.want)
		}
	}
}

// A coding that noteCoding does not know as the only "chunked" is never taken for no coding.
func TestChunkedWithBlanksIsRefused(t *testing.T) {
	for _, value := range []string{"chunked ", " chunked", "chunked\t", "chunked"} {
		var p HeadParser
		p.noteCoding([]byte(value))
		if want := value == "chunked"; p.Has(ChunkedBody) != want || p.Has(badCoding) == want {
			t.Errorf("%q: flags %b", value, p.Flags)
		}
	}
}

func TestConnectionOptions(t *testing.T) {
	for value, want := range map[string]Flags{
		"":                          0,
		"close":                     ConnectionClose,
		"\tCLOSE ,":                 ConnectionClose,
		",,keep-ALIVE":              ConnectionKeepAlive,
		"keep-alive, Upgrade,close": ConnectionKeepAlive | ConnectionUpgrade | ConnectionClose,
		"close;x, keep alive":       0,
		"\"close\"":                 0,
	} {
		if got := ConnectionOptions([]byte(value)); got != want {
			t.Errorf("ConnectionOptions(%q) = %b, want %b", value, got, want)
		}
	}
}

func TestKeepsAlive(t *testing.T) {
	for minor := range uint8(2) {
		for _, flags := range []Flags{0, ConnectionKeepAlive, ConnectionClose, ConnectionClose | ConnectionKeepAlive, ConnectionUpgrade} {
			h := Head{Minor: minor, Flags: flags}
			want := flags&ConnectionClose == 0 && (minor == 1 || flags&ConnectionKeepAlive != 0)
			if h.KeepsAlive() != want {
				t.Errorf("minor %d, flags %b: %v", minor, flags, !want)
			}
		}
	}
}

// A field counts even if more fields precede it than a slot can number.
func TestSecondHostFarBehindTheFirst(t *testing.T) {
	p := HeadParser{Limits: Limits{MaxLine: 100, MaxHead: 10 << 20, MaxFields: 100_000}}
	var tab field.Table
	in := "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A:\r\n", 70_000) + "Host: y\r\n\r\n"
	if _, _, err := p.Parse(&tab, []byte(in)); !errors.Is(err, ErrHostDuplicate) {
		t.Errorf("got %v", err)
	}
}

// FuzzFraming: a head with both fields is accepted only if a simple implementation of
// RFC 9112 section 6.3 finds exactly one framing.
func FuzzFraming(f *testing.F) {
	for _, s := range [][2]string{{"5", ""}, {"5, 5", ""}, {"", "chunked"}, {"5", "chunked"}, {"", "gzip, chunked"}, {"0x5", "chunked "}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, length, coding string) {
		if !ascii.AllString(length, ascii.Value) || !ascii.AllString(coding, ascii.Value) || len(length)+len(coding) > 1000 {
			t.Skip()
		}
		var lines []string
		if length != "" {
			lines = append(lines, "Content-Length:"+length)
		}
		if coding != "" {
			lines = append(lines, "Transfer-Encoding:"+coding)
		}
		lines = append(lines, "X: y")
		head, err := framingOf(t, lines...)
		if err != nil {
			return
		}
		if head.Has(HasLength) && head.Has(ChunkedBody) || head.Has(HasLength) != (length != "") || head.Has(ChunkedBody) != (coding != "") {
			t.Fatalf("%q: flags %b", lines, head.Flags)
		}
		if coding != "" && !strings.EqualFold(strings.Trim(coding, " \t"), "chunked") {
			t.Errorf("coding %q is accepted", coding)
		}
		digits := strings.TrimLeft(strings.Trim(length, " \t"), "0")
		if length != "" && digits != strings.TrimPrefix(fmt.Sprint(head.ContentLength), "0") {
			t.Errorf("length %q is read as %d", length, head.ContentLength)
		}
	})
}
