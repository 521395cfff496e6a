package switching

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// listener is a client of a stream of events.
type listener struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Reader
	log   strings.Builder
}

// event adds the next event to the log, without comments.
func (l *listener) event() {
	l.t.Helper()
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			l.t.Fatalf("after %q: %v", l.log.String(), err)
		}
		if strings.HasPrefix(line, ":") {
			_, _ = l.lines.ReadString('\n') // the empty line that ends it
			continue
		}
		l.log.WriteString(line)
		if line == "\n" {
			return
		}
	}
}

// conversation listens, publishes, and goes away; it returns all that is seen.
func conversation(t *testing.T, addr string) string {
	t.Helper()
	client := &http.Client{Timeout: patience}
	req, err := http.NewRequest("GET", "http://"+addr+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", "42")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	l := &listener{t: t, resp: resp, lines: bufio.NewReader(resp.Body)}
	resp.Header.Del("Date")
	resp.Header.Del("Server")
	fmt.Fprintln(&l.log, resp.StatusCode, resp.Header, resp.TransferEncoding)
	l.event()
	for _, text := range []string{"one", "two", strings.Repeat("long ", 2000)} {
		answer, err := client.Post("http://"+addr+"/publish", "text/plain", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		count, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		fmt.Fprintln(&l.log, answer.StatusCode, string(count), err)
		l.event()
	}
	resp.Body.Close()
	// The program's Flush fails, and it forgets the client.
	for begin := time.Now(); ; {
		answer, err := client.Get("http://" + addr + "/clients")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if strings.TrimSpace(string(text)) == `{"clients":0}` {
			break
		}
		if time.Since(begin) > patience {
			t.Fatalf("the client is gone, and the program says %s", text)
		}
	}
	return l.log.String()
}

func TestEvents(t *testing.T) {
	theirs, ours := both(t, "events")
	if want, got := conversation(t, theirs), conversation(t, ours); got != want {
		t.Errorf("fasthttp:\n%s\nsluice:\n%s", want, got)
	}
	compare(t, theirs, ours, []request{
		{name: "countdown", line: "GET /countdown"},
		{name: "countdown HEAD", line: "HEAD /countdown"},
		{name: "countdown 1.0", line: "GET /countdown HTTP/1.0"},
		{name: "publish to nobody", line: "POST /publish", body: "x"},
		{name: "publish by GET", line: "GET /publish"},
		{name: "clients", line: "GET /clients"},
		{name: "elsewhere", line: "GET /"},
	}, difference{"S34: clients of HTTP/1.0 know no chunks", "countdown 1.0", "Transfer-Encoding"})
}
