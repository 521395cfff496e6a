package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// output is what came of a command.
type output struct {
	stdout, stderr string
	status         int
}

// getCommand is "sluice get" in an empty folder.
func getCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, append([]string{"get"}, args...)...)
	cmd.Dir = t.TempDir()
	return cmd
}

// finish runs cmd to its end.
func finish(t *testing.T, cmd *exec.Cmd) output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func get(t *testing.T, args ...string) output {
	t.Helper()
	return finish(t, getCommand(t, args...))
}

// listenFor serves a handler until the test ends, and returns its URL.
func listenFor(t *testing.T, handler sluice.RequestHandler) string {
	t.Helper()
	return serveOn(t, &sluice.Server{Handler: handler, StreamRequestBody: true, Logger: log.New(io.Discard, "", 0)}, false)
}

// mirror answers with the request, redirects, and statuses.
func mirror(ctx *sluice.RequestCtx) {
	args := ctx.QueryArgs()
	if to := args.Peek("to"); len(to) > 0 {
		ctx.Response.Header.SetBytesV("Location", to)
		ctx.SetStatusCode(args.GetUintOrZero("status"))
		ctx.WriteString("moved")
		return
	}
	if args.Has("typeless") {
		ctx.Response.Header.SetNoDefaultContentType(true)
	}
	if status := args.GetUintOrZero("status"); status > 0 {
		ctx.SetStatusCode(status)
	}
	var body []byte
	if stream := ctx.RequestBodyStream(); stream != nil {
		body, _ = io.ReadAll(stream)
	}
	fmt.Fprintf(ctx, "%s %s conn=%d\n", ctx.Method(), ctx.RequestURI(), ctx.ConnRequestNum())
	for name, value := range ctx.Request.Header.All() {
		fmt.Fprintf(ctx, "%s: %s\n", name, value)
	}
	fmt.Fprintf(ctx, "\n%s", body)
}

// TestGetRequests: what flags make of the request.
func TestGetRequests(t *testing.T) {
	url := listenFor(t, mirror)
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte("of a\nfile"), 0o600); err != nil {
		t.Fatal(err)
	}
	const form = "Content-Type: application/x-www-form-urlencoded\n"
	for _, c := range []struct {
		name string
		args []string
		want []string // "!" begins what must not be there
	}{
		{"nothing", nil, []string{"GET /p?q=1 ", "Accept: */*\n", "User-Agent: sluice-get\n", "!Content-", "!Authorization"}},
		{"method", []string{"-X", "DELETE"}, []string{"DELETE /p"}},
		{"the other method", []string{"--method", "PURGE"}, []string{"PURGE /p"}},
		{"data", []string{"-d", "a=1", "-d", "b=2"}, []string{"POST /p", form, "Content-Length: 7\n", "\n\na=1&b=2"}},
		{"data of a file", []string{"-d", "@" + file}, []string{"POST", "Content-Length: 9\n", "\n\nof a\nfile"}},
		{"data of both", []string{"-d", "x", "-d", "@" + file, "--data-raw", "@y"}, []string{"Content-Length: 14\n", "\n\nx&of a\nfile&@y"}},
		{"put", []string{"-X", "PUT", "-d", "x"}, []string{"PUT /p", "\n\nx"}},
		{"header", []string{"-H", "X-A: 1", "-H", "x-a:2", "-H", "X-Empty;"}, []string{"X-A: 1\n", "X-A: 2\n", "X-Empty: \n"}},
		{"replaced", []string{"-d", "{}", "-H", "Content-Type: application/json"}, []string{"Content-Type: application/json\n", "!form"}},
		{"left out", []string{"-d", "x", "-H", "Accept:", "-H", "User-Agent:", "-H", "Content-Type:"}, []string{"!Accept", "!User-Agent", "!Content-Type"}},
		{"host", []string{"-H", "Host: example.com"}, []string{"Host: example.com\n"}},
		{"user", []string{"-u", "me:and:you"}, []string{"Authorization: Basic bWU6YW5kOnlvdQ==\n"}},
		{"agent", []string{"-A", "me/1"}, []string{"User-Agent: me/1\n"}},
		{"range", []string{"-r", "0-9"}, []string{"Range: bytes=0-9\n"}},
		{"compressed", []string{"--compressed"}, []string{"Accept-Encoding: gzip, br, zstd, deflate\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := get(t, append(c.args, url+"/p?q=1#part")...)
			if got.status != 0 || got.stderr != "" {
				t.Fatalf("exit status %d, %s", got.status, got.stderr)
			}
			for _, want := range c.want {
				absent, isAbsent := strings.CutPrefix(want, "!")
				if strings.Contains(got.stdout, absent) == isAbsent {
					t.Errorf("%q in\n%s", want, got.stdout)
				}
			}
		})
	}
	for _, url := range []string{strings.TrimPrefix(url, "http://") + "/a//b/../c", strings.Replace(url, "//", "//a%40b:c@", 1) + "/a//b/../c"} {
		got := get(t, url)
		if !strings.HasPrefix(got.stdout, "GET /a//b/../c ") || strings.Contains(got.stdout, "Basic YUBiOmM=") != strings.Contains(url, "@") {
			t.Errorf("%s: %s%s", url, got.stdout, got.stderr)
		}
	}
}

// TestGetResponses: what is written where, and the exit status.
func TestGetResponses(t *testing.T) {
	url := listenFor(t, mirror)
	for _, c := range []struct {
		name           string
		args           []string
		status         int
		stdout, stderr string // what they contain
		isSilent       bool   // nothing on stderr
	}{
		{"include", []string{"-i", url}, 0, "HTTP/1.1 200 OK\r\nContent-Length: ", "", true},
		{"head", []string{"-I", url}, 0, "HTTP/1.1 200 OK\r\n", "", true},
		{"explicit stdout", []string{"-o", "-", url}, 0, "GET / ", "", true},
		{"an error is a response", []string{url + "?status=404"}, 0, "GET /?status=404", "", true},
		{"fail", []string{"-f", url + "?status=404"}, 22, "", "sluice: the server answered 404 Not Found\n", false},
		{"fail, silently", []string{"-f", "-s", url + "?status=500"}, 22, "", "", true},
		{"fail, not too silently", []string{"-f", "-sS", url + "?status=500"}, 22, "", "500 Internal", false},
		{"fail does not", []string{"-f", url + "?status=399"}, 0, "GET", "", true},
		{"verbose", []string{"-v", "-d", "x", url}, 0, "POST", "> POST / HTTP/1.1\n> ", false},
		{"verbose answer", []string{"-v", url}, 0, "GET", "\n< HTTP/1.1 200 OK\n< ", false},
		{"trace", []string{"--trace", strings.Replace(url, "127.0.0.1", "localhost", 1)}, 0, "GET", "200 over a new connection to 127.0.0.1:", false},
		{"repeat", []string{"--repeat", "3", "--trace", url}, 0, "conn=3", "200 over the same connection", false},
		{"no redirect", []string{url + "?status=302&to=/x"}, 0, "moved", "", true},
		{"redirect without location", []string{"-L", url + "?status=302"}, 0, "GET", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := get(t, c.args...)
			if got.status != c.status || !strings.Contains(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("exit status %d\n%s\n%s", got.status, got.stdout, got.stderr)
			}
			if c.isSilent && got.stderr != "" {
				t.Errorf("stderr: %s", got.stderr)
			}
			if c.status == 22 && got.stdout != "" {
				t.Errorf("stdout: %s", got.stdout)
			}
		})
	}
	got := get(t, "--trace", strings.Replace(url, "127.0.0.1", "localhost", 1))
	at := 0
	for _, phase := range []string{"dns ", "connect ", "request written ", "first byte ", "body ", "total "} {
		i := strings.Index(got.stderr, "\n  "+phase)
		if i < at {
			t.Errorf("%q is not where it belongs in\n%s", phase, got.stderr)
		}
		at = i
	}
}

// TestGetShowsWhatCame: a head has no field that the server did not send.
func TestGetShowsWhatCame(t *testing.T) {
	url := listenFor(t, mirror)
	for _, flag := range []string{"-i", "-I", "-v"} {
		got := get(t, flag, url+"?typeless=1")
		if head := got.stdout + got.stderr; got.status != 0 || !strings.Contains(head, "Content-Length: ") || strings.Contains(head, "Content-Type") {
			t.Errorf("%s: exit status %d\n%s\n%s", flag, got.status, got.stdout, got.stderr)
		}
	}
}

// TestGetRedirects: methods, bodies and credentials on the way.
func TestGetRedirects(t *testing.T) {
	first, second := listenFor(t, mirror), listenFor(t, mirror)
	secrets := []string{"-L", "-u", "me:secret", "-H", "Cookie: a=b", "-H", "X-Other: stays"}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"relative", []string{"-L", first + "/a/b?status=302&to=../c"}, []string{"GET /c "}},
		{"same origin", append(secrets, first+"?status=307&to=/x"), []string{"GET /x ", "Authorization: Basic", "Cookie: a=b\n", "conn=2"}},
		{"other origin", append(secrets, first+"?status=307&to="+second+"/x"), []string{"GET /x ", "!Authorization", "!Cookie", "X-Other: stays\n"}},
		{"there and back", append(secrets, first+"?status=307&to="+second+"/%3Fstatus=307%26to="+first+"/x"), []string{"GET /x ", "!Authorization", "!Cookie"}},
		{"credentials in it", []string{"-L", first + "?status=302&to=" + strings.Replace(second, "//", "//u:p@", 1)}, []string{"!Authorization"}},
		{"302 after POST", []string{"-L", "-d", "x", first + "?status=302&to=/x"}, []string{"GET /x ", "!Content-", "!\n\nx"}},
		{"303 after PUT", []string{"-L", "-X", "PUT", "-d", "x", first + "?status=303&to=/x"}, []string{"GET /x ", "!\n\nx"}},
		{"307 after POST", []string{"-L", "-d", "x", first + "?status=307&to=/x"}, []string{"POST /x ", "\n\nx"}},
		{"file after 308", []string{"-L", "-d", "@get_test.go", first + "?status=308&to=/x"}, []string{"POST /x ", "\n\npackage main"}},
		{"heads on the way", []string{"-L", "-i", first + "?status=302&to=/x"}, []string{"HTTP/1.1 302 Found\r\n", "\r\n\r\nHTTP/1.1 200 OK\r\n", "!moved"}},
		{"just enough", []string{"-L", "--max-redirs", "1", first + "?status=302&to=/x"}, []string{"GET /x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := getCommand(t, c.args...)
			cmd.Dir = "." // with get_test.go
			got := finish(t, cmd)
			for _, want := range c.want {
				absent, isAbsent := strings.CutPrefix(want, "!")
				if got.status != 0 || strings.Contains(got.stdout, absent) == isAbsent {
					t.Errorf("%q in\n%s%s", want, got.stdout, got.stderr)
				}
			}
		})
	}
}

// TestGetFailures: one line that says what is wrong, and exit status 1, or 2
// for wrong use.
func TestGetFailures(t *testing.T) {
	url := listenFor(t, mirror)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		name   string
		stdin  string
		args   []string
		says   string
		status int
	}{
		{"no URL", "", nil, "URL is missing; see sluice get --help", 2},
		{"two URLs", "", []string{url, url}, "one URL only, and there are 2 arguments", 2},
		{"control in the user", "", []string{"http://us%0Aer:secret@127.0.0.1/"}, "there is a control character in the user name", 2},
		{"colon in the user", "", []string{"http://us%3Aer:secret@127.0.0.1/"}, "there is a colon in the user name", 2},
		{"scheme", "", []string{"ftp://a/b"}, "ftp is neither http nor https", 2},
		{"no host", "", []string{"http:///b"}, "there is no host", 2},
		{"port alone", "", []string{":8080/b"}, "there is no host", 2},
		{"method", "", []string{"-X", "G T", url}, `"G T" is not a method`, 2},
		{"header", "", []string{"-H", "a b: c", url}, `"a b" is not a field's name`, 2},
		{"header without colon", "", []string{"-H", "abc", url}, "no colon", 2},
		{"header with a line break", "", []string{"-H", "a: b\r\nc: d", url}, "line break", 2},
		{"framing", "", []string{"-H", "Content-Length: 5", url}, "follows from the body", 2},
		{"no file to send", "", []string{"-d", "@none", url}, "--data: open none", 1},
		{"stdin twice", "", []string{"-d", "@-", "-d", "@-", url}, "once only", 2},
		{"cacert", "", []string{"--cacert", "none", url}, "--cacert: open none", 1},
		{"nobody listens", "", []string{"http://" + closed.Addr().String()}, "connecting: cannot connect to " + closed.Addr().String(), 1},
		{"time for the answer", "", []string{"-m", "0.2", "http://" + silent.Addr().String()}, "waiting for the response: the 200ms of --max-time are over", 1},
		{"time for TLS", "", []string{"--connect-timeout", "200ms", "https://" + silent.Addr().String()}, "setting up TLS: the 200ms of --connect-timeout are over", 1},
		{"redirects", "", []string{"-L", "--max-redirs", "2", url + "?status=302&to=%3Fstatus=302%26to=%253Fstatus=302%2526to=/"}, "more than 2 redirects", 1},
		{"redirect to a file", "", []string{"-L", url + "?status=302&to=file:///etc/passwd"}, "neither http nor https", 1},
		{"stdin after a redirect", "x", []string{"-L", "-d", "@-", url + "?status=307&to=/x"}, "stdin has been read", 1},
		{"no such folder", "", []string{"-o", "none/x", url}, "open none/x", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := getCommand(t, c.args...)
			cmd.Stdin = strings.NewReader(c.stdin)
			got := finish(t, cmd)
			if got.status != c.status || !strings.HasPrefix(got.stderr, "sluice: ") || !strings.Contains(got.stderr, c.says) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("exit status %d: %s", got.status, got.stderr)
			}
			if got.stdout != "" {
				t.Errorf("stdout: %s", got.stdout)
			}
		})
	}
}

// TestGetUserOfURL: the user in the URL is sent decoded, and --user replaces it.
func TestGetUserOfURL(t *testing.T) {
	url := strings.Replace(listenFor(t, mirror), "//", "//us%40er:p%3Aw@", 1)
	for want, args := range map[string][]string{
		"Authorization: Basic dXNAZXI6cDp3\n": {url}, // us@er:p:w
		"Authorization: Basic YTpi\n":         {"-u", "a:b", url},
	} {
		if got := get(t, args...); got.status != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: exit status %d, %s%s", args, got.status, got.stdout, got.stderr)
		}
	}
}

// TestGetHTTP2: --http2 speaks HTTP/2 over TLS if the server chooses it, and to http: URLs
// without asking.
func TestGetHTTP2(t *testing.T) {
	for _, c := range []struct {
		name             string
		isTLS, isEnabled bool
		status           int
		stdout, stderr   string // how they begin
	}{
		{"TLS", true, true, 0, "HTTP/2.0 200 \r\nContent-Length: ", ""},
		{"TLS, HTTP/1.1", true, false, 0, "HTTP/1.1 200 OK\r\nContent-Length: ", ""},
		{"plain text", false, true, 0, "HTTP/2.0 200 \r\nContent-Length: ", ""},
		{"plain text, HTTP/1.1", false, false, 1, "", "sluice: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := &sluice.Server{Handler: mirror, StreamRequestBody: true, Logger: log.New(io.Discard, "", 0)}
			server.HTTP2.Disable = !c.isEnabled
			args := []string{"--http2", "-k", "-i", "--repeat", "2", "-d", "body", serveOn(t, server, c.isTLS)}
			got := get(t, args...)
			if got.status != c.status || !strings.HasPrefix(got.stdout, c.stdout) || !strings.HasPrefix(got.stderr, c.stderr) {
				t.Errorf("exit status %d\n%s\n%s", got.status, got.stdout, got.stderr)
			}
			if c.status == 0 && (!strings.Contains(got.stdout, "conn=2") || !strings.Contains(got.stdout, "\n\nbody")) {
				t.Errorf("not the same connection, or no body\n%s", got.stdout)
			}
		})
	}
}

// serveOn serves until the test ends, and returns the URL.
func serveOn(t *testing.T, server *sluice.Server, isTLS bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	serve := server.Serve
	if isTLS {
		cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		url = "https://" + ln.Addr().String()
		serve = func(ln net.Listener) error { return server.ServeTLSEmbed(ln, cert, key) }
	}
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	t.Cleanup(func() {
		server.Shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return url
}
