package prefork

import (
	"bufio"
	"crypto/tls"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Workers count together, also with those that came and went.
func TestSharedCounter(t *testing.T) {
	f := start(t, setup{Workers: 3, Threshold: 9, Window: time.Minute, Linger: 10 * time.Millisecond}, true)
	for i := 1; i <= 40; i++ {
		if i == 20 {
			f.restart()
		}
		if i == 30 {
			f.get("/crash")
		}
		if body, err := f.get("/count"); body != strconv.Itoa(i) || err != nil {
			t.Fatalf("request %d: %q, %v", i, body, err)
		}
	}
}

// A client that comes back resumes its session with every worker, also after
// they were replaced (I19).
func TestTicketsAreShared(t *testing.T) {
	f := start(t, setup{Workers: 4, TLS: true, Linger: 10 * time.Millisecond}, true)
	config := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1), ServerName: "localhost"}
	const connections = 60
	resumed := 0
	for i := range connections {
		if i == connections/2 {
			f.signal(syscall.SIGHUP)
		}
		c, err := tls.Dial("tcp", f.addr(0), config)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ask(c, bufio.NewReader(c), "/"); err != nil { // the ticket comes with the answer
			t.Fatal(err)
		}
		if c.ConnectionState().DidResume {
			resumed++
		}
		c.Close()
	}
	if resumed < connections-1 {
		t.Errorf("%d of %d sessions were resumed", resumed, connections)
	}
}
