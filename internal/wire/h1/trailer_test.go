package h1

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

func TestMayTrail(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Checksum": true, "Grpc-Status": true, "Server-Timing": true, "ETag": true, "Last-Modified": true, "Content-Digest": true,
		"X-Forwarde": true, "Iffy": true, "Section": true,
		"Content-Length": false, "Transfer-Encoding": false, "Host": false, "Connection": false, "Upgrade": false, "Keep-Alive": false,
		"Trailer": false, "TE": false, "te": false, "Expect": false, "Max-Forwards": false, "Content-Encoding": false,
		"Content-Type": false, "Content-Range": false, "Range": false, "If-Range": false, "If-Match": false, "If-None-Match": false,
		"If-Modified-Since": false, "IF-UNMODIFIED-SINCE": false, "Authorization": false, "Proxy-Authorization": false,
		"Www-Authenticate": false, "Proxy-Connection": false, "Cookie": false, "Set-Cookie": false, "Location": false,
		"Cache-Control": false, "X-Forwarded-For": false, "x-forwarded-port": false, "Forwarded": false, "Via": false,
		"If-": false, "Proxy-": false, "X-Http-Method-Override": false, "Access-Control-Allow-Origin": false, "Sec-Fetch-Site": false,
	} {
		if got := MayTrail(field.Lookup(name), []byte(name)); got != want {
			t.Errorf("MayTrail(%s) = %v", name, got)
		}
	}
}

func TestDropForbiddenTrailers(t *testing.T) {
	var tab field.Table
	for _, name := range []string{"Host", "A", "TE", "TE", "B", "Content-Length"} {
		tab.Add(field.Lookup(name), []byte(name), []byte("v"))
	}
	DropForbiddenTrailers(&tab)
	var names []string
	for i := range tab.Len() {
		names = append(names, string(tab.Name(i)))
	}
	if got := strings.Join(names, " "); got != "A B" {
		t.Errorf("left: %s", got)
	}
	if tab.Get(field.Host) != nil {
		t.Error("Host is still found")
	}
}

// Fields in a trailer section do not frame the message, and the section ends at its
// empty line.
func TestTrailerSection(t *testing.T) {
	for _, size := range []int{1, 2, 3, 1000} {
		in := "Content-Length: x\r\nHost: a b\r\nX: y\r\n\r\nGET"
		p := HeadParser{Limits: DefaultLimits}
		p.ResetTrailer()
		var tab field.Table
		used, done := 0, false
		for !done {
			n, d, err := p.Parse(&tab, []byte(in[used:min(used+size, len(in))]))
			if err != nil {
				t.Fatal(err)
			}
			used, done = used+n, d
		}
		if used != len(in)-3 || p.Flags != 0 || tab.Len() != 3 {
			t.Errorf("in pieces of %d: used %d, flags %b, %d fields", size, used, p.Flags, tab.Len())
		}
	}
}
