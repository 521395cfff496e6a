package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A commandCase is one run of a program. want is a regular expression of what it prints.
type commandCase struct {
	name string
	args []string
	want string
}

// runCases runs a program once for each case.
func runCases(t *testing.T, program string, cases []commandCase) {
	t.Helper()
	for _, c := range cases {
		if out := run(t, program, c.args...); !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%s: %.1000s, want %s", c.name, out, c.want)
		}
	}
}

// smallFile returns the name of a file of 1 KB.
func smallFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "small")
	if err := os.WriteFile(name, make([]byte, 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCurl(t *testing.T) {
	t.Parallel()
	curl := find(t, "curl")
	if features, _ := exec.Command(curl, "--version").Output(); !strings.Contains(string(features), "HTTP2") {
		t.Skip("skipped: this curl does not speak HTTP/2")
	}
	onTargets(t, func(t *testing.T, g *target) {
		u, option := g.url(), "--http2-prior-knowledge"
		if g.isSecure {
			option = "--http2"
		}
		with := func(args ...string) []string { return append([]string{"-sSk", "--max-time", "30", option}, args...) }
		small, large := smallFile(t), upload(t)
		runCases(t, curl, []commandCase{
			{"get", with("-i", u+"/hello"), `(?s)^HTTP/2 200 .*x-protocol: HTTP/2.0.*hello$`},
			{"post of 1 KB", with("--data-binary", "@"+small, u+"/echo"), `^1024 efb5af2e$`},
			{"post of 5 MB", with("--data-binary", "@"+large, u+"/echo"), fmt.Sprintf(`^%d `, largeSize)},
			{"put of unknown length", with("-T", large, "-H", "Content-Length:", u+"/echo"), fmt.Sprintf(`^%d `, largeSize)},
			{"expect", with("-H", "Expect: 100-continue", "--data-binary", "@"+large, u+"/echo"), fmt.Sprintf(`^%d `, largeSize)},
			{"head", with("-I", u+"/hello"), `(?s)^HTTP/2 200 .*content-length: 5`},
			{"204", with("-i", u+"/204"), `^HTTP/2 204 `},
			{"304", with("-i", u+"/304"), `^HTTP/2 304 `},
			{"large", with("-o", os.DevNull, "-w", "%{http_version} %{size_download}", u+"/large"), fmt.Sprintf(`^2 %d$`, largeSize)},
			{"stream", with(u + "/stream"), `(?s)^line 0\n.*line 9\n$`},
			{"trailers", with("-i", u+"/trailers"), `(?s)with trailers.*x-sum: 42`},
			{"hints", with("-i", u+"/hints"), `(?s)^HTTP/2 103 .*link: </style.css>.*HTTP/2 200 .*hinted$`},
		})
		g.giveUp(func() {
			if out, err := exec.Command(curl, with("--max-time", "0.3", u+"/slow")...).CombinedOutput(); err == nil {
				t.Errorf("/slow ended: %s", out)
			}
		})
		if !g.isSecure { // an upgrade is not answered; the request is served
			runCases(t, curl, []commandCase{{"upgrade", []string{"-sSi", "--http2", u + "/hello"}, `(?s)^HTTP/1.1 200 .*hello$`}})
			return // curl 7.88 cannot do the rest in plain text, with other servers neither
		}
		runCases(t, curl, []commandCase{
			{"parallel", with("-Z", "--stderr", os.DevNull, "--parallel-max", "100", u+"/stream?n=[1-100]"), `^(line \d\n){1000}$`},
		})
		restarted := make(chan struct{})
		go func() { defer close(restarted); g.restart(loadCount / 4) }()
		out := run(t, curl, with("-Z", "--parallel-max", "20", "-o", os.DevNull, "-w", "%{exitcode} %{http_code} %{url_effective}\n",
			fmt.Sprintf("%s/id?n=[1-%d]", u, loadCount))...)
		<-restarted
		if n := strings.Count(out, "0 200 http"); n != loadCount {
			t.Errorf("%d of %d requests were answered while the server was replaced: %.3000s", n, loadCount, out)
		}
	})
}

func TestNghttp(t *testing.T) {
	t.Parallel()
	nghttp := find(t, "nghttp")
	onTargets(t, func(t *testing.T, g *target) {
		u := g.url()
		small, large := smallFile(t), upload(t)
		cases := []commandCase{
			{"get", []string{u + "/hello"}, `^hello$`},
			{"post of 1 KB", []string{"-d", small, u + "/echo"}, `^1024 efb5af2e$`},
			{"post of 5 MB", []string{"-d", large, u + "/echo"}, fmt.Sprintf(`^%d `, largeSize)},
			{"post with trailers", []string{"-d", small, "--trailer", "x-a: b", u + "/echo"}, `^1024 efb5af2e$`},
			{"padding", []string{"-b", "255", "-d", small, u + "/echo"}, `^1024 efb5af2e$`},
			{"head", []string{"-v", "-H", ":method: HEAD", u + "/hello"}, `content-length: 5`},
			{"204", []string{"-v", u + "/204"}, `:status: 204`},
			{"304", []string{"-v", u + "/304"}, `:status: 304`},
			{"large", []string{"-ns", u + "/large"}, `200 +5M /large`},
			{"narrow windows", []string{"-w", "11", "-W", "11", "-ns", u + "/large"}, `200 +5M /large`},
			{"stream", []string{u + "/stream"}, `(?s)^line 0\n.*line 9\n$`},
			{"trailers", []string{"-v", u + "/trailers"}, `x-sum: 42`},
			{"hints", []string{"-v", u + "/hints"}, `(?s):status: 103.*:status: 200`},
			{"parallel", []string{"-m", "100", u + "/stream"}, `(?s)^(line \d\n){1000}$`},
			{"no table", []string{"-c", "0", u + "/hello"}, `^hello$`},
		}
		for i := range cases {
			cases[i].args = append([]string{"--no-verify-peer"}, cases[i].args...)
		}
		runCases(t, nghttp, cases)
		g.giveUp(func() { _ = exec.Command(nghttp, "-t", "300ms", u+"/slow").Run() })
	})
}

func TestH2load(t *testing.T) {
	t.Parallel()
	h2load := find(t, "h2load")
	onTargets(t, func(t *testing.T, g *target) {
		good := func(n int) string {
			return fmt.Sprintf(`%d done, %d succeeded, 0 failed, 0 errored, 0 timeout`, n, n)
		}
		runCases(t, h2load, []commandCase{
			{"get", []string{"-n", "4000", "-c", "8", "-m", "100", g.url() + "/hello"}, good(4000)},
			{"post of 1 KB", []string{"-n", "2000", "-c", "8", "-m", "10", "-d", smallFile(t), g.url() + "/echo"}, good(2000)},
			{"post of 5 MB", []string{"-n", "10", "-c", "2", "-m", "5", "-d", upload(t), g.url() + "/echo"}, good(10)},
			{"large", []string{"-n", "20", "-c", "2", "-m", "10", g.url() + "/large"}, good(20)},
			{"stream", []string{"-n", "400", "-c", "4", "-m", "100", g.url() + "/stream"}, good(400)},
		})
	})
}
