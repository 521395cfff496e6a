package programs

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// A terminal is a program that is used as a person would.
type terminal struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan error

	mu      sync.Mutex
	printed bytes.Buffer
	news    chan struct{} // has an element after each change of printed
}

// Write implements io.Writer for the program's output.
func (c *terminal) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
	return c.printed.Write(p)
}

func openTerminal(t *testing.T, program string, args ...string) *terminal {
	t.Helper()
	c := &terminal{t: t, cmd: exec.CommandContext(t.Context(), program, args...), ended: make(chan error, 1), news: make(chan struct{}, 1)}
	c.cmd.Stdout, c.cmd.Stderr = c, c
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.ended <- c.cmd.Wait() }()
	return c
}

// say types a text, and forgets what was printed before it.
func (c *terminal) say(text string) {
	c.t.Helper()
	c.mu.Lock()
	c.printed.Reset()
	c.mu.Unlock()
	if _, err := io.WriteString(c.stdin, text); err != nil {
		c.t.Error(err)
	}
}

// await waits until what was printed has a match, and returns its first group.
func (c *terminal) await(pattern string) string {
	c.t.Helper()
	wanted, overdue := regexp.MustCompile(pattern), time.After(patience)
	for {
		c.mu.Lock()
		found := wanted.FindSubmatch(c.printed.Bytes())
		text := c.printed.String()
		c.mu.Unlock()
		if found != nil {
			return string(found[len(found)-1])
		}
		select {
		case <-c.news:
		case <-overdue:
			c.t.Fatalf("%s is not printed: %.3000s", pattern, text)
		}
	}
}

const getWho = "GET /who HTTP/1.1\r\nHost: x\r\n\r\n"

// visit asks /who.
func (c *terminal) visit() (v visit) {
	c.t.Helper()
	c.say(getWho)
	if err := json.Unmarshal([]byte(c.await(`({"IsCompact".*?})`)), &v); err != nil {
		c.t.Error(err)
	}
	return v
}

// visits asks /who n times.
func (c *terminal) visits(n int) (all []visit) {
	c.t.Helper()
	for range n {
		all = append(all, c.visit())
	}
	return all
}

// end waits for the program's end. It returns what was printed.
func (c *terminal) end() string {
	c.t.Helper()
	c.stdin.Close()
	select {
	case err := <-c.ended:
		if err != nil {
			c.t.Errorf("%v: %.3000s", err, c.printed.String())
		}
	case <-time.After(patience):
		c.t.Error("the program stays")
	}
	return c.printed.String()
}

// quit has s_client send close_notify and end.
func (c *terminal) quit() {
	c.t.Helper()
	c.say("Q\n")
	c.end()
}

// move uses the connection before and after the worker is replaced.
func (c *terminal) move(f *fleet) {
	c.t.Helper()
	visits := c.visits(5)
	f.restart()
	visits = append(visits, c.visits(5)...)
	want := compactVisit
	want.Remote = visits[0].Remote
	checkVisits(c.t, visits, want)
	if visits[0].Process == visits[5].Process {
		c.t.Error("the connection has stayed")
	}
}

// visitsOf returns the visits in what a program has printed.
func visitsOf(t *testing.T, printed string) (all []visit) {
	t.Helper()
	for _, text := range regexp.MustCompile(`{"IsCompact".*?}`).FindAllString(printed, -1) {
		var v visit
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Error(err)
		}
		all = append(all, v)
	}
	return all
}

// uploadFile returns the name of a file with what /upload wants.
func uploadFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(name, uploaded(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

var compactVisit = visit{IsCompact: true, Version: "TLS 1.3"}

// TestOpenSSL: a person with s_client uses one connection, changes the keys of one side and
// of both, and ends it. s_time makes connections, new and resumed.
func TestOpenSSL(t *testing.T) {
	t.Parallel()
	openssl := find(t, "openssl")
	addr := serveTLS(t, true)
	client := func(t *testing.T, addr string, more ...string) *terminal {
		return openTerminal(t, openssl, append([]string{"s_client", "-connect", addr, "-msg"}, more...)...)
	}
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			c := client(t, addr, "-ciphersuites", suite)
			visits := c.visits(20)
			for range 3 {
				c.say("k\n")
				c.await(`KEYUPDATE`)
				visits = append(visits, c.visit())
				c.say("K\n")
				c.await(`KEYUPDATE`)
				c.say(getWho)
				c.await(`(?s)<<< TLS 1.3, Handshake \[length 0005\], KeyUpdate.*{"IsCompact".*?}`)
				visits = append(visits, c.visits(2)...)
			}
			time.Sleep(coolingTime) // with keys that were changed
			visits = append(visits, c.visits(5)...)
			want := compactVisit
			want.Suite, want.Remote = suite, visits[0].Remote
			checkVisits(t, visits, want)
			c.say("GET /bye HTTP/1.0\r\n\r\n")
			c.await(`bye`)
			if text := c.end(); !strings.Contains(text, "warning close_notify") || strings.Contains(text, "unexpected eof") {
				t.Errorf("no closing alert: %.3000s", text)
			}
		})
	}
	t.Run("sessions", func(t *testing.T) {
		t.Parallel()
		testSessions(t, func(more ...string) *terminal { return client(t, addr, more...) })
	})
	t.Run("bodies", func(t *testing.T) {
		t.Parallel()
		c := openTerminal(t, openssl, "s_client", "-connect", addr, "-quiet")
		c.say(fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", uploadSize, uploaded()))
		c.await(`HTTP/1.1 200 OK`)
		c.say("GET /download HTTP/1.0\r\n\r\n")
		<-c.ended
		if got := c.printed.Bytes(); !bytes.HasSuffix(got, downloaded()) {
			t.Errorf("the download differs: %d bytes", len(got))
		}
	})
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		f := startFleet(t)
		c := client(t, f.addr)
		c.move(f)
		c.say("K\n")
		c.await(`KEYUPDATE`)
		c.visits(2)
		c.quit()
	})
	t.Run("s_time", func(t *testing.T) {
		t.Parallel()
		for _, how := range []string{"-new", "-reuse"} {
			out := run(t, openssl, "s_time", "-connect", addr, "-www", "/who", how, "-time", "2")
			if !regexp.MustCompile(`[1-9]\d* connections in \d+ real seconds`).MatchString(out) {
				t.Errorf("%s: %.2000s", how, out)
			}
		}
	})
}

// testSessions resumes a session, shows a certificate, and speaks TLS 1.2.
func testSessions(t *testing.T, client func(more ...string) *terminal) {
	t.Helper()
	session := filepath.Join(t.TempDir(), "session")
	c := client("-sess_out", session)
	c.visits(2)
	c.quit()
	cert, key := clientCertificate(t)
	c = client("-sess_in", session)
	if v := c.visit(); !v.IsCompact || !v.IsResumed {
		t.Errorf("resumed: %+v", v)
	}
	c.quit()
	c = client("-cert", cert, "-key", key)
	if v := c.visit(); !v.IsCompact || v.Certificates != 1 {
		t.Errorf("certificate: %+v", v)
	}
	c.quit()
	c = client("-tls1_2")
	if v := c.visits(3)[2]; v.IsCompact || v.Version != "TLS 1.2" {
		t.Errorf("TLS 1.2: %+v", v)
	}
	c.quit()
}

// TestGnuTLS: the same with gnutls-cli.
func TestGnuTLS(t *testing.T) {
	t.Parallel()
	program := find(t, "gnutls-cli")
	addr := serveTLS(t, true)
	client := func(t *testing.T, addr string, more ...string) *terminal {
		host, port, _ := net.SplitHostPort(addr)
		c := openTerminal(t, program, append(append([]string{"--insecure", "--inline-commands", "--port", port}, more...), host)...)
		c.await(`Simple Client Mode`)
		return c
	}
	for i, cipher := range []string{"AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"} {
		t.Run(suites[i], func(t *testing.T) {
			t.Parallel()
			c := client(t, addr, "--priority", "NORMAL:-CIPHER-ALL:+"+cipher)
			visits := c.visits(20)
			for _, command := range []string{"^rekey1^\n", "^rekey^\n", "^rekey^\n"} {
				c.say(command)
				c.await(`(?i)rekey`)
				visits = append(visits, c.visits(2)...)
			}
			time.Sleep(coolingTime) // with keys that were changed
			visits = append(visits, c.visits(5)...)
			want := compactVisit
			want.Suite, want.Remote = suites[i], visits[0].Remote
			checkVisits(t, visits, want)
			c.say("GET /bye HTTP/1.0\r\n\r\n")
			c.await(`Peer has closed the GnuTLS connection`)
			c.end()
		})
	}
	t.Run("resumed", func(t *testing.T) {
		t.Parallel()
		c := client(t, addr, "--resume")
		if v := c.visit(); !v.IsCompact || !v.IsResumed {
			t.Errorf("%+v", v)
		}
		c.end()
	})
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		f := startFleet(t)
		c := client(t, f.addr)
		c.move(f)
		c.end()
	})
}

// TestCurlTLS: curl keeps a connection by either protocol, over pauses, and resumes a session.
func TestCurlTLS(t *testing.T) {
	t.Parallel()
	curl := find(t, "curl")
	addr := serveTLS(t, true)
	u := "https://" + addr
	for _, option := range []string{"--http1.1", "--http2"} {
		common := []string{"-sSk", "--fail", option, "-w", "\n"}
		with := func(args ...string) []string { return append(common[:len(common):len(common)], args...) }
		protocol := map[string]string{"--http1.1": "http/1.1", "--http2": "h2"}[option]
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			got := filepath.Join(t.TempDir(), "got")
			args := with(u + "/who?[1-20]")
			args = append(append(args, "--next"), with("--data-binary", "@"+uploadFile(t), u+"/upload")...)
			args = append(append(args, "--next"), with("-o", got, u+"/download")...)
			args = append(append(args, "--next"), with(u+"/who")...)
			visits := visitsOf(t, run(t, curl, args...))
			if len(visits) != 21 {
				t.Fatalf("%d visits", len(visits))
			}
			checkVisits(t, visits, visit{IsCompact: true, Version: "TLS 1.3", Protocol: protocol, Remote: visits[0].Remote})
			if body, err := os.ReadFile(got); err != nil || !bytes.Equal(body, downloaded()) {
				t.Errorf("the download differs: %d bytes, %v", len(body), err)
			}
			// 17 requests a minute: the connection cools down between two of them.
			visits = visitsOf(t, run(t, curl, with("--rate", "17/m", u+"/who?[1-2]")...))
			if len(visits) != 2 {
				t.Fatalf("%d visits", len(visits))
			}
			checkVisits(t, visits, visit{IsCompact: true, Version: "TLS 1.3", Protocol: protocol, Remote: visits[0].Remote})
		})
	}
	for _, suite := range suites {
		visits := visitsOf(t, run(t, curl, "-sSk", "--tls13-ciphers", suite, u+"/who?[1-2]"))
		if len(visits) != 2 {
			t.Fatalf("%s: %d visits", suite, len(visits))
		}
		checkVisits(t, visits, visit{IsCompact: true, Version: "TLS 1.3", Suite: suite, Remote: visits[0].Remote})
	}
	cert, key := clientCertificate(t)
	visits := visitsOf(t, run(t, curl, "-sSk", "--http1.1", "-H", "Connection: close", u+"/who", "--next", "-sSk", u+"/who",
		"--next", "-sSk", "--tls-max", "1.2", u+"/who", "--next", "-sSk", "--cert", cert, "--key", key, u+"/who"))
	if len(visits) != 4 {
		t.Fatalf("%d visits", len(visits))
	}
	if v := visits[1]; !v.IsCompact || !v.IsResumed {
		t.Errorf("resumed: %+v", v)
	}
	if v := visits[2]; v.IsCompact || v.Version != "TLS 1.2" {
		t.Errorf("TLS 1.2: %+v", v)
	}
	if v := visits[3]; !v.IsCompact || v.Certificates != 1 {
		t.Errorf("certificate: %+v", v)
	}
}

// TestGoTLS: the same with net/http, whose session the next connection resumes.
func TestGoTLS(t *testing.T) {
	t.Parallel()
	addr := serveTLS(t, true)
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			config := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			for _, isResumed := range []bool{false, true} {
				protocols := &http.Protocols{}
				protocols.SetHTTP1(protocol == "http/1.1")
				protocols.SetHTTP2(protocol == "h2")
				transport := &http.Transport{TLSClientConfig: config, Protocols: protocols, MaxConnsPerHost: 1}
				client := &http.Client{Transport: transport, Timeout: patience}
				visits := visitWithGo(t, client, "https://"+addr, isResumed)
				transport.CloseIdleConnections()
				want := compactVisit
				want.IsResumed, want.Remote = isResumed, visits[0].Remote
				if protocol == "h2" { // else it does not offer a protocol
					want.Protocol = protocol
				}
				checkVisits(t, visits, want)
			}
		})
	}
}

// visitWithGo makes requests before and after a pause, unless isQuick, and checks both bodies.
func visitWithGo(t *testing.T, client *http.Client, url string, isQuick bool) (visits []visit) {
	t.Helper()
	ask := func(method, path string, body []byte) []byte {
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, resp.Status, err)
		}
		return got
	}
	for range 2 {
		for range 20 {
			visits = append(visits, visitsOf(t, string(ask("GET", "/who", nil)))...)
		}
		if !isQuick {
			time.Sleep(coolingTime)
			isQuick = true
		}
		ask("POST", "/upload", uploaded())
		if !bytes.Equal(ask("GET", "/download", nil), downloaded()) {
			t.Error("the download differs")
		}
	}
	return visits
}
