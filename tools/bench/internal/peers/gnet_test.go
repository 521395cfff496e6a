package peers

import (
	"bytes"
	"testing"
)

// What the handler looks at is where requests have it, and a request that is not complete waits.
func TestParseGnet(t *testing.T) {
	const post = "POST /articles?a=1&page=2 HTTP/1.1\r\nHost: a\r\nuser-agent:  b \r\nContent-Length: 3\r\nConnection: Close\r\n\r\nxyz"
	r := parseGnet([]byte(post + "GET "))
	if string(r.path) != "/articles" || string(r.page) != "2" || string(r.agent) != "b" || r.body != 3 || !r.closes || r.size != len(post) {
		t.Errorf("%q, %q, %q, a body of %d, close %v, %d bytes of %d", r.path, r.page, r.agent, r.body, r.closes, r.size, len(post))
	}
	for n := range len(post) {
		if r := parseGnet([]byte(post[:n])); r.size != 0 {
			t.Errorf("%q is complete", post[:n])
		}
	}
	if r := parseGnet([]byte("GET / HTTP/1.1\r\n\r\n")); r.size == 0 || r.closes || !bytes.Equal(r.path, []byte("/")) || r.page != nil || r.agent != nil {
		t.Errorf("%+v", r)
	}
}
