package harness

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// Echo sends everything back, in angle brackets, until "." comes.
func Echo(c net.Conn) {
	buffer := make([]byte, 100)
	for {
		n, err := c.Read(buffer)
		if err != nil || string(buffer[:n]) == "." {
			return
		}
		fmt.Fprintf(c, "<%s>", buffer[:n])
	}
}

// A Peer is a client that knows nothing of HTTP.
type Peer struct {
	net.Conn
	t *testing.T
	R *bufio.Reader
}

func NewPeer(t *testing.T, c net.Conn) *Peer {
	_ = c.SetDeadline(time.Now().Add(Patience))
	return &Peer{Conn: c, t: t, R: bufio.NewReader(c)}
}

func (p *Peer) Send(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p.Conn, s); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
}

// Rest returns what comes until the connection ends. A reset is an end, too:
// what matters is what was received before.
func (p *Peer) Rest() string {
	p.t.Helper()
	raw, err := io.ReadAll(p.R)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		p.t.Fatalf("the connection was not closed after %q", raw)
	}
	return string(raw)
}

// Expect reads as much as want has and compares.
func (p *Peer) Expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.R, got)
	if err != nil || string(got) != want {
		p.t.Fatalf("received %q (%v), want %q", got[:n], err, want)
	}
}

// ExpectEnd reads the orderly end of the connection.
func (p *Peer) ExpectEnd() {
	p.t.Helper()
	if b, err := p.R.ReadByte(); err != io.EOF {
		p.t.Fatalf("received %q (%v), want the end of the connection", b, err)
	}
}

// An Answer is one received response.
type Answer struct {
	*http.Response
	Body string
}

// Answer reads the response to a request with the given method.
func (p *Peer) Answer(method string) Answer {
	p.t.Helper()
	resp, err := http.ReadResponse(p.R, &http.Request{Method: method})
	if err != nil {
		p.t.Fatalf("reading the answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatalf("reading the body: %v", err)
	}
	return Answer{resp, string(body)}
}

// Get is a GET round trip on the connection.
func (p *Peer) Get(path string) Answer {
	p.t.Helper()
	p.Send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n")
	return p.Answer("GET")
}

// Request makes the text of a request; lines are fields.
func Request(start string, lines ...string) string {
	head := start + "\r\nHost: h\r\n"
	for _, l := range lines {
		head += l + "\r\n"
	}
	return head + "\r\n"
}

// Get is a GET request; closing asks for the end of the connection.
func Get(path string) string { return Request("GET " + path + " HTTP/1.1") }

var dateLine = regexp.MustCompile(`\r\nDate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n`)

// WithoutDates removes the Date fields from answers.
func WithoutDates(raw string) string { return dateLine.ReplaceAllString(raw, "\r\n") }

// ExpectAny returns the first bytes that come, if any.
func (p *Peer) ExpectAny() string {
	p.t.Helper()
	b := make([]byte, len("HTTP/1.1 408 "))
	n, _ := io.ReadFull(p.R, b) // or it was broken off before the first byte
	return string(b[:n])
}

const UpgradeRequest = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

// Upgrade sends a request that a talk takes over, and reads what that sends first.
func (p *Peer) Upgrade() {
	p.t.Helper()
	p.Send(UpgradeRequest)
	if status := p.Answer("GET").StatusCode; status != sluice.StatusSwitchingProtocols {
		p.t.Errorf("status %d", status)
	}
	p.Expect("first")
}

// Closing is Get for the last request of a connection.
func Closing(path string) string {
	return Request("GET "+path+" HTTP/1.1", "Connection: close")
}

// Post is a POST request with a Content-Length.
func Post(path, body string, lines ...string) string {
	lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	return Request("POST "+path+" HTTP/1.1", lines...) + body
}

// TextAnswer is an answer of the default kind, without its Date.
func TextAnswer(status int, body string, lines ...string) string {
	s := fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n",
		status, sluice.StatusMessage(status), len(body))
	if body == "" {
		s = fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: sluice\r\nContent-Length: 0\r\n", status, sluice.StatusMessage(status))
	}
	for _, l := range lines {
		s += l + "\r\n"
	}
	return s + "\r\n" + body
}
