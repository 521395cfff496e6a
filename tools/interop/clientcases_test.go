package interop_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// clientcases holds raw answers and their runner, beside the repository.
const clientcases = "../../../shared/clientcases"

// deliberateClient are the client cases whose verdict we don't share, with the
// reason. A case that passes must leave the list.
var deliberateClient = map[string]string{}

// TestClientCases gives clientdriver the raw answers: no case of any level may
// fail but the deliberate ones.
func TestClientCases(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("the runner of the client cases needs python3: %v", err)
	}
	runner := filepath.Join(clientcases, "run.py")
	if _, err := os.Stat(runner); err != nil {
		t.Skipf("the client cases are not part of this repository: %v", err)
	}
	driver := filepath.Join(t.TempDir(), "clientdriver")
	args := []string{"build", "-buildvcs=false", "-o", driver, "./clientdriver"}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	raw, err := runPython(t, python, []string{runner, "--", driver})
	out := string(raw)
	if err != nil || !passedSome.MatchString(out) {
		t.Fatalf("the runner failed, or ran nothing: %v\n%s", err, out)
	}
	t.Log(clientTallies(out))
	failed := failures(out)
	for id, line := range failed {
		if deliberateClient[id] == "" {
			t.Error(line)
		}
	}
	for id, reason := range deliberateClient {
		if failed[id] == "" {
			t.Errorf("%s passes now or is gone; take it off the list of deliberate ones (%s)", id, reason)
		}
	}
	if n := failedCount.FindStringSubmatch(out); len(n) != 2 || n[1] != fmt.Sprint(len(failed)) {
		t.Errorf("%d failures were understood of:\n%s", len(failed), out)
	}
}

// failedCount finds how many cases failed.
var failedCount = regexp.MustCompile(`(?m)^\d+ passed, (\d+) failed, 0 skipped$`)

// clientTallies returns the end of what the runner says, in one line.
func clientTallies(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "MUST {") })
	return strings.Join(lines[max(at, 0):], "; ")
}

// A getter fetches a URL with the one client that it has.
type getter func(url string) (body string, err error)

// newGetters returns our client and fasthttp's.
func newGetters() (ours, theirs getter) {
	var c sluice.Client
	var f fasthttp.Client
	return func(url string) (string, error) {
			_, body, err := c.GetTimeout(nil, url, 10*time.Second)
			return string(body), err
		}, func(url string) (string, error) {
			_, body, err := f.GetTimeout(nil, url, 10*time.Second)
			return string(body), err
		}
}

// TestBytesAfterACompleteAnswerReturnedToTheNextRequest: a fault of fasthttp's
// client that ours must not have (RFC 9112 section 9.2). A server that sends more
// than the answer makes it take the surplus for the answer to the next request,
// which may be another user's. The day that fasthttp does not do that any more,
// this test says so.
func TestBytesAfterACompleteAnswerReturnedToTheNextRequest(t *testing.T) {
	const (
		answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
		evil   = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
	)
	for _, c := range []struct {
		name        string
		first, late string // late comes once the client has the answer
		isFaultless bool   // fasthttp does it well
	}{
		{name: "with the answer", first: answer + evil, isFaultless: true},
		{name: "later", first: answer, late: evil},
		{name: "later, behind chunks", first: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", late: evil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ours, theirs := newGetters()
			if got := lateBytes(t, c.first, c.late, ours); got != "next" {
				t.Errorf("sluice takes %q for the answer to the next request", got)
			}
			switch got := lateBytes(t, c.first, c.late, theirs); {
			case got == "EVIL" && c.isFaultless:
				t.Errorf("fasthttp takes the surplus for the next answer; it did not")
			case got != "EVIL" && !c.isFaultless:
				t.Errorf("fasthttp returns %q now; the fault is gone", got)
			}
		})
	}
}

// lateBytes returns what a client takes for the answer to its second request,
// when the first is answered by first and then by late.
func lateBytes(t *testing.T, first, late string, get getter) (second string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	release, isSent := make(chan struct{}), make(chan struct{})
	go answerOddly(ln, first, late, release, isSent)
	url := "http://" + ln.Addr().String()
	if body, err := get(url + "/first"); err != nil || body != "hello" {
		t.Fatalf("the first request: %q (%v)", body, err)
	}
	close(release)
	select {
	case <-isSent:
	case <-time.After(10 * time.Second):
		t.Fatal("the server is stuck")
	}
	second, err = get(url + "/next")
	if err != nil {
		return "error: " + err.Error()
	}
	return second
}

// answerOddly answers the first request by first and, when release is closed, by
// late, and all others by "next".
func answerOddly(ln net.Listener, first, late string, release <-chan struct{}, isSent chan<- struct{}) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 4096)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				if !strings.HasPrefix(string(buf[:n]), "GET /first ") {
					_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"))
					continue
				}
				_, _ = c.Write([]byte(first))
				<-release
				_, _ = c.Write([]byte(late))
				close(isSent)
			}
		}()
	}
}
